"""Tables, figures and the HTML page: pure functions of the records. Nothing here needs JAX."""

from recombine.report._lines import (
    Line as Line,
)
from recombine.report._lines import (
    Summary as Summary,
)
from recombine.report._lines import (
    Verdict as Verdict,
)
from recombine.report._lines import (
    make_lines as make_lines,
)
from recombine.report._page import render_page as render_page
from recombine.report._page import write_page as write_page
from recombine.report._tables import (
    line_to_json as line_to_json,
)
from recombine.report._tables import (
    to_markdown as to_markdown,
)
