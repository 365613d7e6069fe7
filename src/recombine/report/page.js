"use strict";
// The page is whole without this: it adds sorting and filtering to the tables.

const entries = [...document.querySelectorAll("tbody.entry")];

// Sorting: each line is a <tbody>, so that its numbers and its story move together.

function keyOf(entry, column) {
  const cell = entry.rows[0].cells[column];
  const text = "key" in cell.dataset ? cell.dataset.key : cell.textContent.trim();
  const number = text === "" ? NaN : Number(text);
  return { text, number, missing: text === "" || text === "–" };
}

function compare(a, b) {
  if (Number.isFinite(a.number) && Number.isFinite(b.number)) return a.number - b.number;
  return a.text.localeCompare(b.text, "en", { numeric: true });
}

function sortBy(table, column, descending) {
  const keyed = [...table.tBodies].map((entry) => ({ entry, key: keyOf(entry, column) }));
  keyed.sort((a, b) => {
    if (a.key.missing || b.key.missing) return a.key.missing - b.key.missing; // always last
    return descending ? compare(b.key, a.key) : compare(a.key, b.key);
  });
  table.append(...keyed.map(({ entry }) => entry));
}

for (const table of document.querySelectorAll("table.results")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.title = `Sort by ${head.textContent}`;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortBy(table, column, descending);
    });
  });
}

// Filtering: all words must occur in a line; of the pressed verdicts, if any, one must be its own.

const box = document.getElementById("filter");
const chips = [...document.querySelectorAll(".chip")];
// What is folded away, such as settings, would match words that nobody sees.
function textOf(entry) {
  const [numbers, story] = entry.rows;
  const cells = [...numbers.cells].map((cell) =>
    cell.matches(".verdict") ? cell.dataset.key : cell.textContent
  );
  const paragraphs = [...story.querySelectorAll("td > p")].map((p) => p.textContent);
  return [...cells, ...paragraphs].join(" ").replace(/\s+/g, " ").toLowerCase();
}

const texts = new Map(entries.map((entry) => [entry, textOf(entry)]));

function filter() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const pressed = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true");
  const verdicts = pressed.map((chip) => chip.dataset.verdict);
  for (const entry of entries) {
    const named = words.every((word) => texts.get(entry).includes(word));
    entry.hidden = !named || (verdicts.length > 0 && !verdicts.includes(entry.dataset.verdict));
  }
  for (const group of document.querySelectorAll(".group")) {
    const none = [...group.querySelectorAll("tbody.entry")].every((entry) => entry.hidden);
    group.querySelector(".scroll").hidden = none;
    group.querySelector(".nothing").hidden = !none;
  }
  const shown = entries.filter((entry) => !entry.hidden).length;
  const active = words.length > 0 || verdicts.length > 0;
  document.getElementById("matches").textContent = active ? `${shown} of ${entries.length}` : "";
}

box.addEventListener("input", filter);
for (const chip of chips) {
  chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
    filter();
  });
}
document.getElementById("tools").hidden = false;
filter(); // a browser may have kept the text of the last visit

// Paper cannot be tapped: reasons and settings are open on it.

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
});
