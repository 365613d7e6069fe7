"""Networks in bfloat16: what is rounded, what is not, and that gradients stay close."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from recombine.methods.adaptation import adapt
from recombine.methods.hypernetworks import HyperNetworkConfig, InnerLoop, MonolithicConfig
from recombine.methods.hypernetworks._half_precision import HalfPrecision

SIZES: dict[str, Any] = {"num_inputs": 3, "num_outputs": 2, "width": 16}
ARCHITECTURES = {
    "linear": HyperNetworkConfig(num_templates=4, num_hidden=2, **SIZES),
    "anil": MonolithicConfig(num_hidden=2, **SIZES),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_meta_gradients_are_close_and_in_single_precision(name, quick_compilation):
    inputs = jr.normal(jr.key(0), (32, 3))
    targets = jnp.sin(inputs[:, :2])
    # Plain descent: Adam's derivative where gradients are small magnifies any rounding.
    optimizer = InnerLoop(learning_rate=0.1, optimizer="sgd").transformation()

    @jax.jit
    def differentiate():
        model = ARCHITECTURES[name].make(key=jr.key(1))

        def meta_loss(model, wrap):
            used = wrap(model)
            features = used.read(inputs)
            seen = []

            def loss(task, _):
                outputs = used.predict(task, features)
                seen.append((features.dtype, outputs.dtype))
                return jnp.mean(jnp.square(outputs - targets))

            start = used.start(inputs, targets, None, key=jr.key(2))
            found = adapt(loss, start, optimizer, num_steps=3)
            dtypes.append((*seen[0], *(leaf.dtype for leaf in jax.tree.leaves(found.params))))
            return loss(found.params, None)

        return [ravel_pytree(jax.grad(meta_loss)(model, w))[0] for w in (_same, HalfPrecision)]

    dtypes = []
    whole, half = differentiate()
    assert half.dtype == jnp.float32
    single, (features, *others) = dtypes
    assert features == jnp.bfloat16
    assert all(dtype == jnp.float32 for dtype in (*single, *others))
    difference = float(jnp.linalg.norm(half - whole) / jnp.linalg.norm(whole))
    assert 1e-5 < difference < 0.03
    np.testing.assert_array_less(0.999, jnp.dot(half, whole) / jnp.linalg.norm(half) ** 2)


def _same(model):
    return model
