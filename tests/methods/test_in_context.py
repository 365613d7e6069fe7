"""A transformer that reads the support in context: what may change an answer, and what may not."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.hypernetworks import InContextConfig


def test_answers_depend_on_what_the_support_shows_and_on_nothing_else(quick_compilation):
    config = InContextConfig(num_inputs=2, num_outputs=1, width=8, num_layers=2, num_heads=2)
    rng = np.random.default_rng(0)
    inputs, targets = (jnp.asarray(rng.normal(size=(4, k)), jnp.float32) for k in (2, 1))
    asked = jnp.asarray(rng.normal(size=(3, 2)), jnp.float32)

    @jax.jit
    def answer(inputs, targets, weights, asked):
        model = config.make(key=jr.key(0))
        task = model.start(inputs, targets, weights, key=jr.key(0))
        return model.predict(task, model.read(asked))

    everyone = jnp.ones(4)
    expected = answer(inputs, targets, everyone, asked)
    assert expected.shape == (3, 1)
    same = {"rtol": 1e-4, "atol": 1e-5}
    order = jnp.array([2, 0, 3, 1])
    np.testing.assert_allclose(
        answer(inputs[order], targets[order], everyone, asked), expected, **same
    )
    # Queries do not look at each other.
    np.testing.assert_allclose(
        answer(inputs, targets, everyone, asked[::-1]), expected[::-1], **same
    )
    without = everyone.at[1].set(0.0)
    hidden = answer(inputs, targets, without, asked)
    assert not np.allclose(hidden, expected, rtol=1e-3)
    filler = answer(inputs.at[1].set(9.0), targets.at[1].set(-9.0), without, asked)
    np.testing.assert_allclose(filler, hidden, **same)
    other = answer(inputs, targets.at[0].set(5.0), everyone, asked)
    assert not np.allclose(other, expected, rtol=1e-3)


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="`num_layers` must be at least 1; got 0"):
        InContextConfig(num_layers=0)
    with pytest.raises(ValueError, match="multiple of `num_heads`; got 6 and 4"):
        InContextConfig(width=6)
