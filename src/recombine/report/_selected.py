"""What a row's metric was at the step that validation would choose, seed by seed.

Rows are judged by their last step. Where the paper may have kept the state of the lowest validation
loss instead, both numbers are shown; what is chosen by must not be what is reported.
"""

import numpy as np

from recombine.experiments import Metric
from recombine.results import RunFolder


def values_selected(folder: RunFolder, metric: Metric, by: Metric) -> np.ndarray | None:
    """Returns the metric of each seed at the evaluation where `by` was best.

    Args:
        folder: of a run; its curves are read.
        metric: what is reported.
        by: what chooses the evaluation; the first of several that are equally good.

    Returns:
        One value for each seed; None where a curve is missing, or was never a number.
    """
    curves = folder.read_curves()
    if metric.name not in curves or by.name not in curves:
        return None
    cost = -curves[by.name] if by.higher_is_better else curves[by.name]
    if not np.all(np.any(np.isfinite(cost), axis=0)):
        return None
    best = np.argmin(np.where(np.isfinite(cost), cost, np.inf), axis=0)
    return np.take_along_axis(curves[metric.name], best[None], axis=0)[0].astype(np.float64)
