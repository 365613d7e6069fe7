import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.agreement import (
    BINARY,
    MLP,
    MULTICLASS,
    AgreementLearner,
    Fixed,
    LabelledEnvironments,
    LabelledExamples,
    MLPShape,
    Split,
    and_mask,
    arithmetic_mean,
    environment_gradients,
)


def make_learner(aggregator=None, batch_size=4, envs=3, examples=10, **changes):
    inputs = jr.normal(jr.key(0), (envs, examples, 2))
    labels = (inputs[..., 0] > 0).astype(jnp.int32)
    data = Split(LabelledEnvironments(inputs, labels), LabelledExamples(inputs[0], labels[0]))
    settings = {
        "source": Fixed(data),
        "network": MLPShape((2, 8, 1)),
        "objective": BINARY,
        "aggregator": aggregator or arithmetic_mean(),
        "batch_size": batch_size,
        "decay_steps": (),
        "learning_rate": 1e-2,
        "l2": 0.0,
    }
    return AgreementLearner(**{**settings, **changes})


def test_environment_gradients_equal_one_gradient_at_a_time():
    def loss(params, batch):
        return jnp.mean(jnp.tanh(batch @ params["w"]) ** 2)

    params = {"w": jr.normal(jr.key(0), (3,))}
    batches = jr.normal(jr.key(1), (5, 7, 3))
    losses, grads = environment_gradients(loss, params, batches)
    for env in range(5):
        value, grad = jax.value_and_grad(loss)(params, batches[env])
        np.testing.assert_allclose(losses[env], value, rtol=1e-6)
        np.testing.assert_allclose(grads["w"][env], grad["w"], rtol=1e-5, atol=1e-7)


def test_an_epoch_visits_every_example_once_and_drops_the_rest():
    learner = make_learner(batch_size=4, examples=10)
    state = learner.init(jr.key(0))
    train = learner.source.split(None).train
    numbered = train._replace(labels=jnp.broadcast_to(jnp.arange(10), (3, 10)))
    seen = []
    for step in range(4):
        order, (_, chosen) = learner._next_batches(numbered, state, jr.key(step))
        state = state._replace(order=order, step=state.step + 1)
        seen.append(np.asarray(chosen))
    for env in range(3):
        first = np.concatenate([seen[0][env], seen[1][env]])
        assert len(set(first.tolist())) == 8  # two batches of four out of ten
    assert not np.array_equal(seen[0], seen[2]), "a new epoch has a new order"


def test_batches_keep_inputs_and_labels_together():
    learner = make_learner()
    state = learner.init(jr.key(0))
    train = learner.source.split(None).train
    _, (inputs, labels) = learner._next_batches(train, state, jr.key(1))
    assert jnp.array_equal(labels, (inputs[..., 0] > 0).astype(jnp.int32))


def test_one_step_of_the_plain_mean_is_adam_on_the_mean_gradient():
    learner = make_learner(batch_size=10)
    state = learner.init(jr.key(0))
    after, metrics = learner.step(state, jr.key(1))
    # The first step of Adam moves every weight by the learning rate, against its gradient.
    _, grads = environment_gradients(
        learner._batch_loss, state.model, tuple(learner.source.split(None).train)
    )
    mean = jax.tree.map(lambda g: jnp.mean(g, axis=0), grads)
    for before, now, grad in zip(
        *map(jax.tree.leaves, (state.model, after.model, mean)), strict=True
    ):
        moved = np.asarray(now - before)
        clear = np.abs(np.asarray(grad)) > 1e-5
        np.testing.assert_allclose(moved[clear], -0.01 * np.sign(grad)[clear], rtol=1e-2)
    assert float(metrics["kept"]) == 1.0


def test_the_learning_rate_falls_where_it_should():
    learner = make_learner(batch_size=10, decay_steps=(1,))
    state = learner.init(jr.key(0))
    first, _ = learner.step(state, jr.key(1))
    second, _ = learner.step(first, jr.key(2))
    move = lambda a, b: float(jnp.abs(b.model.weights[1] - a.model.weights[1]).mean())  # noqa: E731
    assert move(first, second) == pytest.approx(move(state, first) / 10, rel=0.2)


def test_the_and_mask_reports_how_much_it_keeps():
    learner = make_learner(aggregator=and_mask(1.0, rescale="tensor"))
    _, metrics = learner.step(learner.init(jr.key(0)), jr.key(1))
    assert 0.0 < float(metrics["kept"]) < 1.0


def test_accuracy_counts_right_answers():
    learner = make_learner()
    state = learner.init(jr.key(0))
    zero = jax.tree.map(jnp.zeros_like, state.model)
    measured = learner.evaluate(state._replace(model=zero), jr.key(0))
    labels = learner.source.split(None).train.labels  # a logit of 0 means class 1
    assert float(measured["train_accuracy"]) == pytest.approx(float(labels.mean()))
    assert float(measured["test_accuracy"]) == pytest.approx(float(labels[0].mean()))


def test_multiclass_accuracy_and_loss():
    logits = jnp.array([0.0, 2.0, 1.0])
    assert bool(MULTICLASS.is_right(logits, jnp.int32(1)))
    assert not bool(MULTICLASS.is_right(logits, jnp.int32(2)))
    expected = -jax.nn.log_softmax(logits)[2]
    np.testing.assert_allclose(MULTICLASS.loss(logits, jnp.int32(2)), expected, rtol=1e-6)


def test_the_network_starts_as_the_authors_code_does():
    model = MLP((400, 300, 1), key=jr.key(0))
    assert float(model.weights[0].std()) == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert all(jnp.all(bias == 0.01) for bias in model.biases)
    x = jr.normal(jr.key(1), (400,))
    hidden = x @ model.weights[0] + 0.01
    expected = jnp.where(hidden > 0, hidden, 0.01 * hidden) @ model.weights[1] + 0.01
    np.testing.assert_allclose(model(x), expected, rtol=1e-5)


def test_a_batch_larger_than_an_environment_is_refused():
    with pytest.raises(ValueError, match="must not exceed its 10 examples; got 11"):
        make_learner(batch_size=11).init(jr.key(0))


def test_the_probe_is_drawn_through_the_network():
    grid = jnp.zeros((3, 4, 2))
    learner = make_learner(probe=grid)
    state = learner.init(jr.key(0))
    shown = learner.inspect(state, jr.key(0))["probe_logits"]
    assert shown.shape == (3, 4, 1)
    np.testing.assert_allclose(shown[0, 0], state.model(grid[0, 0]), rtol=1e-6)
    assert make_learner().inspect(state, jr.key(0)) == {}
