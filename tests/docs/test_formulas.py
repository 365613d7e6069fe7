"""Formulas become pictures when the site is built."""

import logging
import types
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import load_script

RENDERING = Path(__file__).parents[2] / "docs" / "rendering"
PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))


@pytest.fixture(scope="module")
def formulas() -> types.ModuleType:
    return load_script("docs/rendering/formulas.py")


def test_marked_formulas_become_svg_with_their_tex_as_label(formulas: types.ModuleType):
    page = (
        r'<p>a <span class="arithmatex">\(\tau\)</span></p>'
        r'<div class="arithmatex">\[ |x| \ge 1 \]</div>'
    )
    drawn = formulas.on_page_content(page, page=PAGE)
    assert drawn.count("<svg") == 2
    assert r'aria-label="\tau"' in drawn
    assert r'<div class="formula-block"><svg' in drawn
    assert "arithmatex" not in drawn


def test_a_formula_that_cannot_be_drawn_is_a_warning_and_stays_readable(
    formulas: types.ModuleType, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING):
        drawn = formulas.on_page_content(
            r'<div class="arithmatex">\[\nonsense &lt; 1\]</div>', page=PAGE
        )
    assert drawn == r"<code>\nonsense &lt; 1</code>"
    assert "page.md: Matplotlib cannot draw the formula" in caplog.text


def test_text_without_formulas_is_left_alone(formulas: types.ModuleType):
    assert formulas.on_page_content("<p>$RECOMBINE_CACHE</p>", page=PAGE) == (
        "<p>$RECOMBINE_CACHE</p>"
    )
