import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from recombine.methods.agreement import adam_with_decay, decay_after, temporal_and_mask_adam

pytestmark = pytest.mark.usefixtures("quick_compilation")

B1, B2, EPS = 0.9, 0.999, 1e-8


def by_hand(weights, gradients, rate, decay, placement, quirk=False, b1=B1):
    """Adam in double precision, one step after the other."""
    m = v = np.zeros_like(weights)
    rates = rate if callable(rate) else lambda _: rate
    for t, grad in enumerate(gradients, start=1):
        grad = grad + decay * weights if placement == "before" else grad
        m, v = b1 * m + (1 - b1) * grad, B2 * v + (1 - B2) * grad**2
        step = (m / (1 - b1**t)) / (np.sqrt(v / (1 - B2**t)) + EPS)
        weights = weights - rates(t - 1) * step
        if placement == "after":
            correction = 1 - b1**t if quirk else 1.0
            weights = weights - rates(t - 1) / correction * decay * weights
    return weights


def run(optimizer, weights, gradients):
    def step(carry, grads):
        weights, state = carry
        updates, state = optimizer.update(grads, state, weights)
        return (optax.apply_updates(weights, updates), state), None

    start = (weights, optimizer.init(weights))
    return jax.jit(lambda: jax.lax.scan(step, start, gradients)[0][0])()


def example():
    return jr.normal(jr.key(0), (6,)), jr.normal(jr.key(1), (5, 6))


@pytest.mark.parametrize(
    ("placement", "quirk"), [("before", False), ("after", False), ("after", True)]
)
@pytest.mark.parametrize("b1", [0.9, 0.21])
def test_decay_is_placed_as_written_out_by_hand(placement, quirk, b1):
    weights, gradients = example()
    optimizer = adam_with_decay(
        0.1, b1, weight_decay=0.3, decay_placement=placement, decay_bias_correction=quirk
    )
    wanted = by_hand(
        *(np.asarray(a, np.float64) for a in (weights, gradients)), 0.1, 0.3, placement, quirk, b1
    )
    np.testing.assert_allclose(run(optimizer, weights, gradients), wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(("b1", "factor"), [(0.9, 10.0), (0.21, 1 / 0.79)])
def test_the_quirk_of_the_authors_code_multiplies_the_first_decay(b1, factor):
    decays = []
    for quirk in (False, True):
        optimizer = adam_with_decay(
            0.01, b1, weight_decay=0.1, decay_placement="after", decay_bias_correction=quirk
        )
        weight = jnp.array([1.0])
        updates, _ = optimizer.update(jnp.zeros(1), optimizer.init(weight), weight)
        decays.append(float(updates[0]))
    assert decays[0] == pytest.approx(-0.001, rel=1e-5)
    assert decays[1] == pytest.approx(-0.001 * factor, rel=1e-5)


@pytest.mark.parametrize("placement", ["before", "after"])
def test_a_schedule_drives_step_and_decay(placement):
    weights, gradients = example()
    schedule = optax.piecewise_constant_schedule(0.1, {2: 0.1})
    optimizer = adam_with_decay(schedule, weight_decay=0.3, decay_placement=placement)
    wanted = by_hand(
        *(np.asarray(a, np.float64) for a in (weights, gradients)),
        lambda count: 0.1 if count < 2 else 0.01,
        0.3,
        placement,
    )
    np.testing.assert_allclose(run(optimizer, weights, gradients), wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("placement", ["before", "after"])
def test_without_decay_it_is_adam(placement):
    weights, gradients = example()
    one = run(adam_with_decay(0.1, decay_placement=placement), weights, gradients)
    np.testing.assert_allclose(one, run(optax.adam(0.1), weights, gradients), atol=1e-6)


@pytest.mark.parametrize("placement", ["before", "after"])
def test_settings_can_be_searched_in_one_program(placement):
    weights, gradients = example()

    def train(rate, b1, decay):
        optimizer = adam_with_decay(rate, b1, weight_decay=decay, decay_placement=placement)
        return run(optimizer, weights, gradients)

    settings = jnp.array([0.1, 0.01]), jnp.array([0.9, 0.5]), jnp.array([0.0, 0.3])
    together = jax.vmap(train)(*settings)
    for number, (rate, b1, decay) in enumerate(zip(*settings, strict=True)):
        alone = train(float(rate), float(b1), float(decay))
        np.testing.assert_allclose(together[number], alone, rtol=1e-4, atol=1e-6)


def test_decay_keeps_half_precision_and_holes():
    weights = {"w": jnp.ones(3, jnp.bfloat16), "none": None}
    optimizer = adam_with_decay(0.1, weight_decay=0.3, decay_placement="after")
    updates, _ = optimizer.update(weights, optimizer.init(weights), weights)
    assert updates["w"].dtype == jnp.bfloat16
    assert updates["none"] is None


def test_decay_without_weights_is_refused():
    decay = decay_after(0.1, 0.3)
    with pytest.raises(ValueError, match="`params` as third argument"):
        decay.update(jnp.ones(2), decay.init(jnp.ones(2)))


def test_unknown_placements_are_refused():
    for make in (adam_with_decay, temporal_and_mask_adam):
        settings = {} if make is adam_with_decay else {"b3": 0.5, "threshold": 0.5}
        with pytest.raises(ValueError, match='`decay_placement` must be "before" or "after"'):
            make(0.1, decay_placement="inside", **settings)
    with pytest.raises(ValueError, match="`decay_bias_correction` belongs to"):
        adam_with_decay(0.1, decay_placement="before", decay_bias_correction=True)
