"""Tables, figures and the HTML page: pure functions of the records. Nothing here needs JAX."""

from recombine.report._lines import (
    Line as Line,
    Summary as Summary,
    Verdict as Verdict,
    make_lines as make_lines,
)
from recombine.report._tables import (
    line_to_json as line_to_json,
    to_markdown as to_markdown,
)
