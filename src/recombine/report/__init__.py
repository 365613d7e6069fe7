"""Tables, figures and the HTML page: pure functions of the records. Nothing here needs JAX."""

from recombine.report._gallery import save_pictures as save_pictures
from recombine.report._lines import (
    Line as Line,
    Summary as Summary,
    Verdict as Verdict,
    make_lines as make_lines,
)
from recombine.report._page import render_page as render_page, write_page as write_page
from recombine.report._tables import (
    COLUMNS as COLUMNS,
    cells as cells,
    line_to_json as line_to_json,
    summary_text as summary_text,
    to_markdown as to_markdown,
)
