import jax.numpy as jnp
import numpy as np
import pytest

from recombine.estimators import _blocks
from recombine.estimators._blocks import apply_in_blocks


@pytest.mark.parametrize("num_rows", [1, 63, 64, 65, 130])
def test_every_row_is_computed_once_and_in_order(num_rows, monkeypatch):
    monkeypatch.setattr(_blocks, "MOST", 64)
    inputs = np.arange(3 * num_rows, dtype=np.float32).reshape(num_rows, 3)
    outputs = apply_in_blocks(lambda row: jnp.stack([row.sum(), row.max()]), inputs)
    np.testing.assert_array_equal(outputs, np.stack([inputs.sum(1), inputs.max(1)], axis=1))
