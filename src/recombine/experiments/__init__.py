"""The published rows: each pairs a task with a method and states the paper's number.

Nothing here needs JAX until a learner is made.
"""

from recombine.experiments._plugins import (
    PluginError as PluginError,
    PluginWarning as PluginWarning,
    load_systems as load_systems,
)
from recombine.experiments._registry import (
    SYSTEMS as SYSTEMS,
    find_row as find_row,
    match_rows as match_rows,
)
from recombine.experiments._row import (
    Animation as Animation,
    Chart as Chart,
    Group as Group,
    Metric as Metric,
    Panel as Panel,
    Paper as Paper,
    Picture as Picture,
    Row as Row,
    Sample as Sample,
    System as System,
    Variant as Variant,
)
from recombine.experiments._rules import (
    Above as Above,
    AllOf as AllOf,
    AtLeast as AtLeast,
    AtMost as AtMost,
    Below as Below,
    Judgement as Judgement,
    NearPaper as NearPaper,
    Rule as Rule,
)
from recombine.experiments._search import (
    Choice as Choice,
    LogUniform as LogUniform,
    Range as Range,
    Search as Search,
    Space as Space,
    Uniform as Uniform,
    Whole as Whole,
    range_to_json as range_to_json,
    range_to_text as range_to_text,
)
from recombine.experiments._settings import (
    SettingsError as SettingsError,
    change_settings as change_settings,
    settings_of as settings_of,
)
