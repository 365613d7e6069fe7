"""Where the network looked: attention to the support set and to the query (Lake 2019, App. A)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from recombine.experiments._row import Picture

COLOURS = ("RED", "YELLOW", "GREEN", "BLUE")
PSEUDOWORDS = ("dax", "lug", "wif", "zup")
SCAN_WORDS = (
    *("walk", "look", "run", "jump", "turn", "left", "right"),
    *("opposite", "around", "twice", "thrice", "and", "after"),
)
SCAN_ACTIONS = ("WALK", "LOOK", "RUN", "JUMP", "LTURN", "RTURN")  # as the paper spells them

ROW_INCHES = 0.13
"""The height that the name of a step needs."""


def draw_attention(
    axes: Any, arrays: Mapping[str, np.ndarray], *, words: tuple[str, ...], actions: tuple[str, ...]
) -> None:
    """Draws one answered query: rows are steps, columns what is attended to.

    Above, the memory: each step of the query against the support items. Below, the decoder: each
    produced symbol against the steps of the query. A network without a memory has the latter alone.
    """
    item = int(np.argmax(arrays["query_input_lengths"]))
    query = _names(arrays["query_inputs"][item], words, int(arrays["query_input_lengths"][item]))
    answer = _names(
        arrays["answers"][item], actions, _answer_length(arrays["answers"][item], actions)
    )
    figure = axes.figure
    panels = []
    if "memory_attention" in arrays:
        shown = [
            " ".join(_names(row, words, int(length) - 1))
            for row, length in zip(
                arrays["support_inputs"], arrays["support_input_lengths"], strict=True
            )
        ]
        memory = arrays["memory_attention"][item][: len(query), : len(shown)]
        panels.append((memory, query, shown if len(shown) <= 8 else None, "support items"))
    if "decoder_attention" in arrays:
        weights = arrays["decoder_attention"][item][: len(answer)]
        framed = ["<SOS>", *query] if weights.shape[1] > arrays["query_inputs"].shape[1] else query
        panels.append((weights[:, : len(framed)], answer, framed, "the query"))
    axes.axis("off")
    longest = max((len(rows) for _, rows, _, _ in panels), default=0)
    height = max(3.2, ROW_INCHES * longest)  # long answers need room for their names
    figure.set_size_inches(3.6, height * max(len(panels), 1))
    for place, (weights, rows, columns, title) in enumerate(panels):
        panel = figure.add_subplot(len(panels), 1, place + 1)
        panel.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        panel.set_title(f"attention to {title}", fontsize=8)
        panel.set_yticks(range(len(rows)), rows, fontsize=7)
        labels = columns if columns is not None else [""] * weights.shape[1]
        panel.set_xticks(range(len(labels)), labels, fontsize=7, rotation=45, ha="right")


def _names(tokens: np.ndarray, names: tuple[str, ...], length: int) -> list[str]:
    """Turns indices into names; beyond the known names stand extras, SOS and EOS."""
    return [names[token] if token < len(names) else "<EOS>" for token in tokens[:length].tolist()]


def _answer_length(tokens: np.ndarray, names: tuple[str, ...]) -> int:
    ends = np.flatnonzero(tokens >= len(names))
    return int(ends[0]) + 1 if len(ends) else len(tokens)


ATTENTION_ME = Picture(
    "where the network looked",
    partial(draw_attention, words=PSEUDOWORDS, actions=COLOURS),
    ("query_inputs", "answers"),
)
ATTENTION_SCAN = Picture(
    "where the network looked",
    partial(draw_attention, words=SCAN_WORDS, actions=SCAN_ACTIONS),
    ("query_inputs", "answers"),
)
