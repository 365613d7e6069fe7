"""Draws formulas when the site is built, so that no page needs a script from a network.

`pymdownx.arithmatex` marks what stands between dollar signs; this hook replaces each mark by an
SVG of Matplotlib's outlines. Matplotlib knows a large part of TeX's mathematics, but neither
environments such as `aligned` nor macros: a formula that it cannot read is a warning, and a strict
build fails on it. The TeX stays in the page as the picture's label.
"""

import functools
import html
import logging
import re
from typing import Any

MARK = re.compile(
    r'<(?P<tag>div|span) class="arithmatex">\\[\[(](?P<tex>.*?)\\[\])]</(?P=tag)>', re.DOTALL
)
COMMAND = re.compile(r"\\([a-zA-Z]+)")
SYNONYMS = {"ge": r"\geq", "le": r"\leq", "ne": r"\neq", "to": r"\rightarrow", "lVert": r"\|"}
SYNONYMS |= {"rVert": r"\|", "lvert": "|", "rvert": "|", "top": r"T"}
SYNONYMS |= {
    f"{size}{side}": "" for size in ("big", "Big", "bigg", "Bigg") for side in ("", *"lrm")
}
"""What Matplotlib knows by another name; a bracket's size is a wish that it does not know."""

SIZE = 10.0
"""Font size in points; sizes in the page are relative to the text around."""

log = logging.getLogger("mkdocs.hooks.formulas")


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Replaces every marked formula of a page."""

    def drawn(mark: re.Match[str]) -> str:
        tex = " ".join(html.unescape(mark["tex"]).split())
        try:
            svg = draw(tex)
        except ValueError as error:
            log.warning(
                "%s: Matplotlib cannot draw the formula %r (%s). Write it with simpler TeX, or in "
                "words and code.",
                page.file.src_uri,
                tex,
                str(error).strip().splitlines()[-1],
            )
            return f"<code>{html.escape(tex)}</code>"
        return f'<div class="formula-block">{svg}</div>' if mark["tag"] == "div" else svg

    return MARK.sub(drawn, content)


@functools.cache
def draw(tex: str) -> str:
    """Returns one formula as an SVG that stands on the baseline of the text around it."""
    from matplotlib import rc_context
    from matplotlib.textpath import TextPath

    with rc_context({"mathtext.fontset": "cm"}):
        path = TextPath((0, 0), f"${COMMAND.sub(_known, tex)}$", size=SIZE)
    box = path.get_extents()
    left, bottom = min(box.x0, 0.0), min(box.y0, 0.0)
    width, height = box.x1 - left, max(box.y1, 1.0) - bottom
    em = 1.15 / SIZE  # Computer Modern is small beside the site's sans-serif
    return (
        f'<svg class="formula" role="img" aria-label="{html.escape(tex)}" '
        f'viewBox="{left:.2f} {-bottom - height:.2f} {width:.2f} {height:.2f}" '
        f'style="width:{width * em:.3f}em;height:{height * em:.3f}em;'
        f'vertical-align:{bottom * em:.3f}em"><path d="{_outline(path)}"/></svg>'
    )


def _known(command: re.Match[str]) -> str:
    return SYNONYMS.get(command[1], command[0])


def _outline(path: Any) -> str:
    letters = {path.MOVETO: "M", path.LINETO: "L", path.CURVE3: "Q", path.CURVE4: "C"}
    parts = []
    for points, code in path.iter_segments(simplify=False):
        if code == path.CLOSEPOLY:
            parts.append("Z")
            continue
        pairs = points.reshape(-1, 2)  # SVG counts downwards
        parts.append(letters[code] + " ".join(f"{x:.2f} {-y:.2f}" for x, y in pairs))
    return "".join(parts)
