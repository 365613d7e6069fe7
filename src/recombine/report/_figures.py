"""Figures as SVG that lives inside a page: small, the same every time, at home in dark and light.

A figure is drawn on a transparent ground. What is drawn in black takes the colour of the page's
text, and the colours of `PALETTE` become the page's own series colours, which differ between dark
and light; every other colour stays as it is. Text stays text, in the page's font.
"""

import io
import re
from collections.abc import Callable
from typing import Any

from markupsafe import Markup, escape

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Colours that most colour-blind people can tell apart (Okabe and Ito 2008)."""

STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
}

WHITE: dict[str, Any] = {"figure.facecolor": "white", "savefig.facecolor": "white"}
"""The ground of figures that are files of their own."""


def draw_svg(
    draw: Callable[[Any], None], *, name: str, title: str, size: tuple[float, float]
) -> Markup:
    """Draws one figure and returns it as an element for an HTML page.

    Neither pyplot nor the user's matplotlib settings take part.

    Args:
        draw: fills the matplotlib axes that it is given; it may change the figure's size.
        name: unique on the page; it keeps the figure's internal references apart from others'.
        title: says what is to be seen, for those who cannot see it.
        size: width and height in inches.
    """
    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    _draw(draw, size, {"svg.hashsalt": name}, file, format="svg", metadata=nothing)
    return _for_page(file.getvalue(), title)


def draw_png(draw: Callable[[Any], None], *, size: tuple[float, float]) -> bytes:
    """Draws one figure on white, for a file of its own; otherwise as `draw_svg` does."""
    file = io.BytesIO()
    _draw(draw, size, WHITE, file, format="png", dpi=200, metadata={"Software": None})
    return file.getvalue()


def draw_svg_file(draw: Callable[[Any], None], *, name: str, size: tuple[float, float]) -> bytes:
    """Draws one figure on white as SVG, for a file of its own; otherwise as `draw_svg` does."""
    file = io.BytesIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    settings = {**WHITE, "svg.hashsalt": name}
    _draw(draw, size, settings, file, format="svg", metadata=nothing)
    return file.getvalue()


def _draw(
    draw: Callable[[Any], None],
    size: tuple[float, float],
    settings: dict[str, Any],
    file: Any,
    **options: Any,
) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        chosen: Any = {**STYLE, **settings}
        matplotlib.rcParams.update(chosen)
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(file, **options)


def _for_page(svg: str, title: str) -> Markup:
    """Strips what only a file of its own needs, and hands the colours over to the page."""
    head, _, body = svg[svg.index("<svg") :].partition(">")
    view = re.search(r'viewBox="([^"]+)"', head)
    assert view is not None
    _, _, width, height = view[1].split()
    body = body[: body.rindex("</svg>")]
    body = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body)  # named alike in every figure, referred to by none
    body = body.replace("xlink:href", "href")
    body = re.sub(r' d="[^"]*"', lambda path: _rounded(path[0]), body)
    body = re.sub(r' style="[^"]*"', lambda style: _themed(style[0]), body)
    body = re.sub(r"\s*\n\s*", "\n", body)
    return Markup(
        f'<svg class="plot" role="img" viewBox="{view[1]}" width="{width}" height="{height}">'
        f"<title>{escape(title)}</title>{body.strip()}</svg>"
    )


def _rounded(path: str) -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", path).replace("\n", "")


def _themed(style: str) -> str:
    style = style.replace("#000000", "currentColor")
    for number, color in enumerate(PALETTE):
        style = style.replace(color, f"var(--series-{number})")
    return re.sub(r"font: ((?:[\w.]+ )*[\d.]+px) [^;\"]*", r"font: \1 var(--sans)", style)
