"""Lets docstrings say `Example:` where Google's style, as Griffe reads it, says `Examples:`."""

import re
from typing import Any

from griffe import Extension, Object

HEADING = re.compile(r"^(\s*)Example:(?=\s*$)", re.MULTILINE)


class SingleExample(Extension):
    """Renames the heading before the docstring is parsed."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Is called for every module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = HEADING.sub(r"\1Examples:", obj.docstring.value)
