"""The differentiable inner loop that every bilevel learner shares."""

from recombine.methods.adaptation._adapt import (
    Adapted as Adapted,
    Keep as Keep,
    Order as Order,
    adapt as adapt,
    segment_length as segment_length,
)
from recombine.methods.adaptation._divergence import (
    DivergedError as DivergedError,
    raise_if_diverged as raise_if_diverged,
)
from recombine.methods.adaptation._optimizer import (
    DIFFERENTIABLE_EPS as DIFFERENTIABLE_EPS,
    differentiable_adamw as differentiable_adamw,
)
