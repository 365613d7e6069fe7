"""Networks in 16 bits: what is rounded, what is not, and that gradients stay close."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
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


CLOSE = {"bfloat16": 0.04, "float16": 0.005}  # three bits more


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("dtype", CLOSE)
def test_meta_gradients_are_close_and_in_single_precision(name, dtype, quick_compilation):
    inputs = jr.normal(jr.key(0), (512, 3))  # one ReLU that flips is one of many
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

        half = functools.partial(HalfPrecision, dtype=dtype)
        return [ravel_pytree(jax.grad(meta_loss)(model, w))[0] for w in (_same, half)]

    dtypes = []
    whole, half = differentiate()
    assert half.dtype == jnp.float32
    single, (features, *others) = dtypes
    assert features == dtype
    assert all(dtype == jnp.float32 for dtype in (*single, *others))
    difference = float(jnp.linalg.norm(half - whole) / jnp.linalg.norm(whole))
    assert 1e-6 < difference < CLOSE[dtype]


def _same(model):
    return model
