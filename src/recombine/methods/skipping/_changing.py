"""Which results of a function change with its inputs, and which are always the same."""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Literal
from jaxtyping import PyTree


def which_change(
    function: Callable[..., Any], fixed: PyTree[Any], *like: PyTree[Any]
) -> list[bool]:
    """Says of each leaf of `function(fixed, *changing)` whether it depends on more than `fixed`.

    Args:
        function: of arrays, pure; it is traced, not computed.
        fixed: its first argument.
        like: in the shapes of the others, which change.

    Example:
        >>> which_change(lambda a, b: (2 * a, a * b), 1.0, 1.0)
        [False, True]
    """
    jaxpr = jax.make_jaxpr(function)(fixed, *like).jaxpr
    num_changing = len(jax.tree.leaves(like))  # the last; constants may come first
    changing = set(jaxpr.invars[len(jaxpr.invars) - num_changing :])

    def changes(variable: Any) -> bool:
        return not isinstance(variable, Literal) and variable in changing

    for equation in jaxpr.eqns:
        if any(map(changes, equation.invars)):
            changing.update(equation.outvars)
    return [changes(variable) for variable in jaxpr.outvars]
