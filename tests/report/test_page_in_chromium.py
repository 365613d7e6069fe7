"""The page in a real browser: it loads, sorts, filters, and fits a phone in dark and light."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from chromium_pipe import Chromium, Tab
from runs_by_hand import write_run_to

from recombine.report import write_page
from recombine.results import read_records

pytestmark = pytest.mark.browser

AND_MASK, PRINTED, PLAIN = (
    "ilc/synthetic/and-mask",
    "ilc/synthetic/and-mask-printed",
    "ilc/synthetic/baseline",
)
ORDER = (
    "[...document.querySelectorAll('tbody.entry')].filter(e => e.getClientRects().length)"
    ".map(e => e.dataset.row.split('/').at(-1) + ' ' + e.dataset.run)"
)
UNSORTED = ["and-mask full", "and-mask quick", "and-mask-printed full", "baseline quick"]

# The ratio of relative luminances that WCAG 2 defines, of an element's text and what is behind it.
CONTRAST = """
(selector => {
  const channels = color => color.match(/[\\d.]+/g).map(Number);
  const luminance = color => channels(color).slice(0, 3)
    .map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = element => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if ((channels(color)[3] ?? 1) > 0) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  return Math.min(...[...document.querySelectorAll(selector)].map(element => {
    const style = getComputedStyle(element);
    const ink = element instanceof SVGElement ? style.fill : style.color;
    const both = [luminance(ink), luminance(ground(element))].sort((a, b) => b - a);
    return (both[0] + 0.05) / (both[1] + 0.05);
  }));
})
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, one_system: None) -> Path:
    folder = tmp_path_factory.mktemp("page")
    rng = np.random.default_rng(0)
    for row, variant, values, seconds in (
        (AND_MASK, "full", [0.999, 1.0], 75.0),
        (AND_MASK, "quick", [0.97, 0.96], 9.0),
        (PLAIN, "quick", [0.52, 0.51], 110.0),
    ):
        curve = rng.random((30, 2)) / 10 + values
        write_run_to(
            folder / "runs",
            row,
            variant,
            final={"test_accuracy": values, "train_accuracy": [1.0, 1.0]},
            curves={"test_accuracy": curve, "train_accuracy": curve},
            inspect={"probe_logits": rng.normal(size=(24, 24, 1))},
            seconds={"run": seconds},
        )
    error = "<img src=x onerror=alert(1)>" + "x" * 400
    write_run_to(folder / "runs", PRINTED, status="failed", error=error, seconds={})
    write_page(folder / "report.html", read_records(folder / "runs"))
    return folder / "report.html"


@pytest.fixture
def tab(chromium: Chromium, page: Path) -> Iterator[Tab]:
    tab = chromium.open_tab()
    tab.load(page)
    yield tab
    tab.close()


def sort_button(label: str) -> str:
    return f"thead button[title='Sort by {label}']"


def test_it_loads_without_complaint_and_without_the_network(tab, page):
    assert tab.eval("document.title") == "Recombine: paper and ours"
    assert tab.complaints() == []
    assert [url for url in tab.requests() if not url.startswith("data:")] == [page.as_uri()]


def test_figures_are_there_and_have_a_size(tab):
    sizes = tab.eval(
        "[...document.querySelectorAll('svg.plot')].map(s => [s.clientWidth, s.clientHeight])"
    )
    assert len(sizes) == 4  # two metrics, two pictures
    assert all(width > 200 and height > 100 for width, height in sizes)
    assert (
        tab.eval(
            "Promise.all([...document.querySelectorAll('svg.plot image')].map(i => {"
            "const image = new Image(); image.src = i.href.baseVal;"
            "return image.decode().then(() => image.width > 20); })).then(all => all.join())"
        )
        == "true,true"
    )


def test_a_click_on_a_head_sorts_and_a_second_one_turns_the_order(tab):
    assert tab.eval(ORDER) == UNSORTED
    tab.click(sort_button("time"))
    head = "document.querySelector('thead th:last-child').getAttribute('aria-sort')"
    times = ["and-mask quick", "and-mask full", "baseline quick"]  # 9, 75 and 110 s: as numbers
    assert tab.eval(ORDER) == [*times, "and-mask-printed full"]
    assert tab.eval(head) == "ascending"
    tab.click(sort_button("time"))
    assert tab.eval(ORDER) == [*reversed(times), "and-mask-printed full"]
    assert tab.eval(head) == "descending"


def test_lines_without_a_number_come_last_in_either_order(tab):
    tab.click(sort_button("ours"))
    up = ["baseline quick", "and-mask quick", "and-mask full", "and-mask-printed full"]
    assert tab.eval(ORDER) == up
    tab.click(sort_button("ours"))
    assert tab.eval(ORDER) == [*reversed(up[:3]), up[3]]


def test_only_one_head_says_that_it_is_sorted_by(tab):
    tab.click(sort_button("ours"))
    tab.click(sort_button("verdict"))
    assert tab.eval("document.querySelectorAll('[aria-sort]').length") == 1


def test_the_keyboard_sorts_too(tab):
    button = sort_button("paper")
    tab.eval(f'document.querySelector("{button}").focus()')
    tab.press("Enter", code=13, text="\r")
    assert tab.eval(ORDER)[0] == "baseline quick"


def test_typing_filters(tab):
    tab.click("#filter")
    tab.type("QUICK mask")
    assert tab.eval(ORDER) == ["and-mask quick"]
    assert tab.eval("document.getElementById('matches').textContent") == "1 of 4"


def test_a_filter_that_nothing_matches_says_so(tab):
    tab.click("#filter")
    tab.type("no such thing")
    assert tab.eval(ORDER) == []
    assert tab.eval("document.querySelector('.nothing').getClientRects().length") == 1


def test_verdicts_filter_together_and_let_go_again(tab):
    tab.click(".chip[data-verdict='failed']")
    assert tab.eval(ORDER) == ["and-mask-printed full"]
    tab.click(".chip[data-verdict='reproduced']")
    assert tab.eval(ORDER) == ["and-mask full", "and-mask-printed full"]
    tab.click(".chip[data-verdict='failed']")
    tab.click(".chip[data-verdict='reproduced']")
    assert tab.eval(ORDER) == UNSORTED


def test_the_reason_of_a_verdict_opens_on_a_click(tab):
    is_shown = "document.querySelector('.verdict details p').checkVisibility()"
    assert not tab.eval(is_shown)
    tab.click(".verdict summary")
    assert tab.eval(is_shown)


@pytest.mark.parametrize("width", [320, 360, 820, 1280])
def test_the_page_never_scrolls_sideways(tab, width):
    tab.resize(width=width)
    tab.eval("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert tab.eval("document.documentElement.scrollWidth") <= width


def test_a_phone_shows_every_number(tab):
    tab.resize(width=360, height=800)
    outside = tab.eval(
        "[...document.querySelectorAll('.numbers > *')].filter(cell => {"
        "const box = cell.getBoundingClientRect();"
        "return !box.width || box.left < 0 || box.right > 360; }).length"
    )
    assert outside == 0


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_dark_and_in_light(tab, dark):
    tab.resize(dark=dark)
    for selector in ("p", "td", "th", "figcaption", ".badge", ".chip", "a", "svg.plot text"):
        assert tab.eval(f"({CONTRAST})('{selector}')") >= 4.5, selector


def test_dark_and_light_differ(tab):
    ground = "getComputedStyle(document.body).backgroundColor"
    line = "getComputedStyle(document.querySelector('.legend path')).stroke"
    light = tab.eval(f"[{ground}, {line}]")
    tab.resize(dark=True)
    dark = tab.eval(f"[{ground}, {line}]")
    assert light[0] != dark[0]
    assert light[1] != dark[1]


def test_without_scripts_the_tables_are_whole(chromium, page):
    tab = chromium.open_tab()
    tab.send("Emulation.setScriptExecutionDisabled", value=True)
    tab.load(page)
    tab.send("Emulation.setScriptExecutionDisabled", value=False)
    assert tab.eval(ORDER) == UNSORTED
    assert tab.eval("document.getElementById('tools').getClientRects().length") == 0
    assert tab.eval("document.querySelectorAll('thead button').length") == 0
    tab.close()
