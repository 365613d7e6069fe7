"""The published rows: each pairs a task with a method and states the paper's number.

Nothing here needs JAX until a learner is made.
"""

from recombine.experiments._registry import (
    SYSTEMS as SYSTEMS,
)
from recombine.experiments._registry import (
    find_row as find_row,
)
from recombine.experiments._registry import (
    match_rows as match_rows,
)
from recombine.experiments._row import (
    Group as Group,
)
from recombine.experiments._row import (
    Metric as Metric,
)
from recombine.experiments._row import (
    Paper as Paper,
)
from recombine.experiments._row import (
    Picture as Picture,
)
from recombine.experiments._row import (
    Row as Row,
)
from recombine.experiments._row import (
    System as System,
)
from recombine.experiments._row import (
    Variant as Variant,
)
from recombine.experiments._rules import (
    Above as Above,
)
from recombine.experiments._rules import (
    AllOf as AllOf,
)
from recombine.experiments._rules import (
    AtLeast as AtLeast,
)
from recombine.experiments._rules import (
    AtMost as AtMost,
)
from recombine.experiments._rules import (
    Below as Below,
)
from recombine.experiments._rules import (
    Judgement as Judgement,
)
from recombine.experiments._rules import (
    NearPaper as NearPaper,
)
from recombine.experiments._rules import (
    Rule as Rule,
)
from recombine.experiments._settings import (
    SettingsError as SettingsError,
)
from recombine.experiments._settings import (
    change_settings as change_settings,
)
from recombine.experiments._settings import (
    settings_of as settings_of,
)
