"""Tables, figures and the HTML page: pure functions of the records. Nothing here needs JAX."""

from recombine.report._bootstrap import (
    Difference as Difference,
    difference_of_means as difference_of_means,
)
from recombine.report._choosing import choose_runs as choose_runs
from recombine.report._comparison_plot import save_comparison as save_comparison
from recombine.report._gallery import save_pictures as save_pictures
from recombine.report._lines import (
    Line as Line,
    Summary as Summary,
    Verdict as Verdict,
    make_lines as make_lines,
)
from recombine.report._page import render_page as render_page, write_page as write_page
from recombine.report._searches import (
    FoundStudy as FoundStudy,
    find_studies as find_studies,
    study_line as study_line,
    study_to_json as study_to_json,
)
from recombine.report._side_by_side import (
    Compared as Compared,
    ComparisonError as ComparisonError,
    SideBySide as SideBySide,
    compare_runs as compare_runs,
    comparison_table as comparison_table,
    comparison_to_json as comparison_to_json,
    comparison_to_markdown as comparison_to_markdown,
)
from recombine.report._tables import (
    COLUMNS as COLUMNS,
    cells as cells,
    line_to_json as line_to_json,
    selected_text as selected_text,
    summary_text as summary_text,
    to_markdown as to_markdown,
)
