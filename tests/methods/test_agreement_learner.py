import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from recombine.methods.agreement import (
    BINARY,
    DANN,
    IRM,
    MLP,
    MULTICLASS,
    REGRESSION,
    AdversarialShape,
    AgreementLearner,
    AndMask,
    Descent,
    Epochs,
    Fishr,
    Fixed,
    Groups,
    JoinGradients,
    LabelledEnvironments,
    LabelledExamples,
    MLPShape,
    Pooled,
    Problem,
    Split,
    VREx,
    add_l1,
    and_mask,
    arithmetic_mean,
    environment_gradients,
    geometric_mean,
    split_running,
)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


def make_learner(method=None, batch_size=4, envs=3, examples=10, optimizer=None, **changes):
    inputs = jr.normal(jr.key(0), (envs, examples, 2))
    labels = (inputs[..., 0] > 0).astype(jnp.int32)
    data = Split(LabelledEnvironments(inputs, labels), LabelledExamples(inputs[0], labels[0]))
    settings = {
        "source": Fixed(data),
        "network": MLPShape((2, 8, 1)),
        "objective": BINARY,
        "method": method or JoinGradients(arithmetic_mean()),
        "batches": Epochs(batch_size),
        "optimizer": optimizer or Descent(learning_rate=1e-2),
    }
    return AgreementLearner(**{**settings, **changes})


@eqx.filter_jit
def start(learner):
    return learner.init(jr.key(0))


@eqx.filter_jit
def advance(learner, state, key):
    return learner.step(state, key)


@eqx.filter_jit
def gradient_by(method, problem, model, batches, state):
    return method.gradient(problem, model, batches, state, step=jnp.int32(0), key=jr.key(0))


def data_of(learner):
    return learner.source.split(None).train


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


# Batches.


def test_an_epoch_visits_every_example_once_and_drops_the_rest():
    train = data_of(make_learner(examples=10))
    numbered = train._replace(labels=jnp.broadcast_to(jnp.arange(10), (3, 10)))
    batches = Epochs(4)
    order = batches.init(numbered)
    draw = jax.jit(batches.next)
    seen = []
    for step in range(4):
        order, chosen = draw(numbered, order, jnp.int32(step), jr.key(step))
        seen.append(np.asarray(chosen.labels))
    for env in range(3):
        first = np.concatenate([seen[0][env], seen[1][env]])
        assert len(set(first.tolist())) == 8  # two batches of four out of ten
    assert not np.array_equal(seen[0], seen[2]), "a new epoch has a new order"


@pytest.mark.parametrize("batches", [Epochs(4), Groups(4, num_envs=2)])
def test_batches_keep_inputs_and_labels_together(batches):
    train = data_of(make_learner())
    _, chosen = batches.next(train, batches.init(train), jnp.int32(0), jr.key(1))
    assert jnp.array_equal(chosen.labels, (chosen.inputs[..., 0] > 0).astype(jnp.int32))


def test_groups_take_distinct_environments_and_reach_all_of_them():
    train = data_of(make_learner(envs=5))
    marked = train._replace(labels=jnp.broadcast_to(jnp.arange(5)[:, None], (5, 10)))
    draw = jax.jit(Groups(4, num_envs=2).next)
    seen = set()
    for step in range(20):
        _, chosen = draw(marked, None, jnp.int32(step), jr.key(step))
        members = np.asarray(chosen.labels[:, 0])
        assert chosen.labels.shape == (2, 4)
        assert len(set(members.tolist())) == 2
        assert (np.asarray(chosen.labels) == members[:, None]).all()
        seen |= set(members.tolist())
    assert seen == set(range(5))


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        (Epochs(11), "must not exceed its 10 examples; got 11"),
        (Epochs(0), "at least 1"),
        (Groups(11, num_envs=2), "must not exceed its 10 examples; got 11"),
        (Groups(4, num_envs=4), "how many of the 3 environments"),
    ],
)
def test_batches_that_cannot_be_drawn_are_refused(batches, message):
    with pytest.raises(ValueError, match=message):
        make_learner(batches=batches).init(jr.key(0))


def test_methods_that_must_know_the_environments_refuse_groups():
    with pytest.raises(ValueError, match="IRM must know which is which; use `Epochs`"):
        make_learner(IRM(), batches=Groups(4, num_envs=2)).init(jr.key(0))
    make_learner(JoinGradients(and_mask(1.0)), batches=Groups(4, num_envs=2)).init(jr.key(0))


# Updates.


def test_one_step_of_the_plain_mean_is_adam_on_the_mean_gradient():
    learner = make_learner(batch_size=10)
    state = start(learner)
    after, metrics = advance(learner, state, jr.key(1))

    def loss(model, batch):
        return jnp.mean(jax.vmap(BINARY.loss)(jax.vmap(model)(batch[0]), batch[1]))

    # The first step of Adam moves every weight by the learning rate, against its gradient.
    _, grads = environment_gradients(loss, state.model, tuple(data_of(learner)))
    mean = jax.tree.map(lambda g: jnp.mean(g, axis=0), grads)
    for before, now, grad in zip(
        *map(jax.tree.leaves, (state.model, after.model, mean)), strict=True
    ):
        moved = np.asarray(now - before)
        clear = np.abs(np.asarray(grad)) > 1e-5
        np.testing.assert_allclose(moved[clear], -0.01 * np.sign(grad)[clear], rtol=1e-2)
    assert float(metrics["kept"]) == 1.0


def test_the_pooled_gradient_is_the_mean_of_the_environments():
    joined = make_learner(JoinGradients(arithmetic_mean()), batch_size=10)
    pooled = make_learner(Pooled(), batch_size=10)
    state, other = start(joined), start(pooled)
    problem, batches = Problem(BINARY), data_of(joined)
    one = gradient_by(joined.method, problem, state.model, batches, state.method)
    two = gradient_by(pooled.method, problem, other.model, batches, other.method)
    np.testing.assert_allclose(one.losses, two.losses, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(one.grads), jax.tree.leaves(two.grads), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_the_learning_rate_falls_where_it_should():
    learner = make_learner(batch_size=10, optimizer=Descent(learning_rate=1e-2, decay_steps=(1,)))
    state = start(learner)
    first, _ = advance(learner, state, jr.key(1))
    second, _ = advance(learner, first, jr.key(2))
    move = lambda a, b: float(jnp.abs(b.model.weights[1] - a.model.weights[1]).mean())  # noqa: E731
    assert move(first, second) == pytest.approx(move(state, first) / 10, rel=0.2)


WEIGHTS, GRADS = jnp.array([0.5, -2.0]), jnp.array([1.0, 0.0])


def first_update(optimizer):
    rule = optimizer.transformation()
    return np.asarray(rule.update(GRADS, rule.init(WEIGHTS), WEIGHTS)[0])


def test_sgd_follows_the_regularized_gradient():
    plain = first_update(Descent(learning_rate=0.1, l2=0.01, l1=0.2, kind="sgd"))
    expected = -0.1 * np.array([1.0 + 0.01 * 0.5 + 0.2, -0.01 * 2.0 - 0.2])
    np.testing.assert_allclose(plain, expected, rtol=1e-6)
    rule = Descent(learning_rate=0.1, kind="sgd").transformation()
    _, state = rule.update(GRADS, rule.init(WEIGHTS), WEIGHTS)
    second, _ = rule.update(GRADS, state, WEIGHTS)
    np.testing.assert_allclose(second, -0.1 * (1 + 0.9) * GRADS, rtol=1e-6)  # momentum


def test_coupled_decay_pulls_a_masked_weight_and_decoupled_decay_hardly_does():
    coupled = first_update(Descent(learning_rate=1e-2, l2=1e-4))
    assert coupled[1] == pytest.approx(1e-2, rel=1e-3)  # whatever the strength
    decoupled = first_update(Descent(learning_rate=1e-2, l2=1e-4, decoupled=True))
    np.testing.assert_allclose(decoupled[1], 1e-2 * 1e-4 * 2.0, rtol=1e-4)
    adamw = optax.adamw(1e-2, weight_decay=1e-4)
    np.testing.assert_allclose(
        decoupled, adamw.update(GRADS, adamw.init(WEIGHTS), WEIGHTS)[0], rtol=1e-5
    )


def test_l1_needs_parameters():
    with pytest.raises(ValueError, match="needs the parameters"):
        add_l1(0.1).update(GRADS, optax.EmptyState())


def test_numbers_of_an_optimizer_share_one_program():
    traces = []

    @eqx.filter_jit
    def step(learner, state):
        traces.append(1)
        return advance(learner, state, jr.key(1))[0]

    for rate, l1 in ((0.1, 0.2), (0.01, 0.3)):
        learner = make_learner(
            JoinGradients(AndMask(0.5, 1.0)), optimizer=Descent(learning_rate=rate, l1=l1)
        )
        step(learner, learner.init(jr.key(0)))
    assert len(traces) == 1


# Masks.


def test_the_and_mask_reports_how_much_it_keeps_of_every_layer():
    learner = make_learner(JoinGradients(and_mask(1.0, rescale="tensor")))
    _, metrics = advance(learner, start(learner), jr.key(1))
    assert 0.0 < float(metrics["kept"]) < 1.0
    sizes = {"kept/layer1": 2 * 8 + 8, "kept/layer2": 8 + 1}
    assert set(sizes) <= set(metrics)
    pooled = sum(float(metrics[name]) * size for name, size in sizes.items())
    assert float(metrics["kept"]) == pytest.approx(pooled / sum(sizes.values()), rel=1e-5)


def test_what_was_kept_is_traced_over_the_whole_run():
    learner = make_learner(JoinGradients(and_mask(1.0)), trace_steps=3)
    state, kept = learner.init(jr.key(0)), []
    for number in range(3):
        state, metrics = advance(learner, state, jr.key(number))
        kept.append([float(metrics["kept/layer1"]), float(metrics["kept/layer2"])])
    shown = learner.inspect(state, jr.key(0))
    np.testing.assert_allclose(shown["kept_by_layer"], kept, rtol=1e-6)
    assert shown["kept_steps"].tolist() == [1, 2, 3]


def test_a_long_run_is_traced_at_a_hundred_moments():
    learner = make_learner(JoinGradients(and_mask(1.0)), trace_steps=250)
    state = start(learner)
    assert state.trace.shape == (100, 2)
    late, _ = advance(learner, state._replace(step=jnp.int32(249)), jr.key(0))
    assert float(late.trace[99].sum()) > 0
    assert float(late.trace[:99].sum()) == 0


# Batch norm and dropout.


def normed_problem():
    model = MLP((2, 8, 8, 1), key=jr.key(3), batch_norm=True)
    return Problem(BINARY), model, data_of(make_learner(envs=4))


def test_batch_norm_normalizes_a_batch_and_averages_its_statistics():
    _, model, data = normed_problem()
    inputs = data.inputs.reshape(-1, 2)
    hidden = np.asarray(inputs @ model.weights[0] + model.biases[0][None])
    passed = model.train_pass(inputs)
    moved = passed.model.norms[0].running
    np.testing.assert_allclose(moved.mean, 0.1 * hidden.mean(axis=0), rtol=1e-4, atol=1e-6)
    expected = 0.9 + 0.1 * hidden.var(axis=0, ddof=1)
    np.testing.assert_allclose(moved.variance, expected, rtol=1e-4)
    normed, _ = model.norms[0].over_batch(jnp.asarray(hidden))
    np.testing.assert_allclose(normed.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(normed.std(axis=0), 1.0, atol=1e-3)


def test_a_trained_network_is_used_with_its_running_statistics():
    _, model, data = normed_problem()
    x = data.inputs[0, 0]
    hidden = x @ model.weights[0] + model.biases[0]
    running = model.norms[0].running
    expected = (hidden - running.mean) / jnp.sqrt(running.variance + 1e-5)
    np.testing.assert_allclose(model.norms[0](hidden), expected, rtol=1e-6)
    assert model(x).shape == (1,)


def test_gradients_through_batch_norm_are_those_of_the_whole_batch():
    problem, model, data = normed_problem()
    method = JoinGradients(arithmetic_mean())
    found = gradient_by(method, problem, model, data, method.init(model, 4))
    whole = gradient_by(Pooled(), problem, model, data, None)
    for one, other in zip(jax.tree.leaves(found.grads), jax.tree.leaves(whole.grads), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)

    # The gradient of one environment reaches the other environments' examples.
    params, running = split_running(model)

    def one_loss(params):
        return problem.look(eqx.combine(params, running), data, jr.key(0)).losses[2]

    def alone(params):
        only = jax.tree.map(lambda leaf: leaf[2:3], data)
        return problem.look(eqx.combine(params, running), only, jr.key(0)).losses[0]

    chosen = optax.GradientTransformation(
        method.rule.init, lambda g, s, p=None: (jax.tree.map(lambda leaf: leaf[2], g), s)
    )
    picked = gradient_by(JoinGradients(chosen), problem, model, data, method.init(model, 4))
    exact, separate = jax.jit(jax.grad(one_loss))(params), jax.jit(jax.grad(alone))(params)
    np.testing.assert_allclose(picked.grads.weights[0], exact.weights[0], rtol=1e-4, atol=1e-6)
    assert not np.allclose(exact.weights[0], separate.weights[0], rtol=1e-2)


def test_running_statistics_are_neither_decayed_nor_counted():
    learner = make_learner(
        JoinGradients(and_mask(0.0)),
        network=MLPShape((2, 8, 1), batch_norm=True),
        optimizer=Descent(learning_rate=0.1, l2=1.0),
        batch_size=10,
    )
    state = start(learner)
    after, metrics = advance(learner, state, jr.key(1))
    passed = state.model.train_pass(data_of(learner).inputs.reshape(-1, 2))
    np.testing.assert_allclose(
        after.model.norms[0].running.variance, passed.model.norms[0].running.variance, rtol=1e-5
    )
    params, running = split_running(state.model)
    assert len(jax.tree.leaves(params)) == 6  # two weights, two biases, scale and shift
    assert len(jax.tree.leaves(running)) == 2
    assert float(metrics["kept"]) == 1.0


def test_dropout_zeroes_units_in_training_only():
    model = MLP((2, 400, 1), key=jr.key(0))
    x = jr.normal(jr.key(1), (50, 2))
    whole = model.train_pass(x).features
    dropped = model.train_pass(x, key=jr.key(2), dropout=jnp.float32(0.25)).features
    gone = np.asarray(dropped) == 0
    assert gone.mean() == pytest.approx(0.25, abs=0.02)
    np.testing.assert_allclose(dropped[~gone], whole[~gone] / 0.75, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(model)(x), model.train_pass(x).logits, rtol=1e-5, atol=1e-6)


# Every method.

METHODS = {
    "and-mask": JoinGradients(and_mask(0.5, rescale="tensor")),
    "geometric": JoinGradients(geometric_mean(0.5)),
    "plain": Pooled(),
    "irm": IRM(1.0, 2),
    "vrex": VREx(1.0, 2),
    "fishr": Fishr(1.0, 2, 0.5),
    "dann": DANN(0.5),
}


def learner_of(name, **changes):
    shape = AdversarialShape(2, 8, 1, 3) if name == "dann" else MLPShape((2, 8, 1))
    return make_learner(METHODS[name], network=shape, **changes)


RUN_ALWAYS = {"and-mask", "irm", "dann"}  # the others are much the same programs


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in RUN_ALWAYS else pytest.mark.slow) for name in METHODS],
)
def test_every_method_learns_an_easy_problem_in_one_program_for_all_seeds(name):
    learner = learner_of(name, dropout=0.1, optimizer=Descent(learning_rate=3e-2))

    @eqx.filter_jit
    def train(keys):
        def run(key):
            def body(state, key):
                return learner.step(state, key)

            state, metrics = jax.lax.scan(body, learner.init(key), jr.split(key, 80))
            return metrics, learner.evaluate(state, key)

        return jax.vmap(run)(keys)

    metrics, measured = train(jr.split(jr.key(5), 2))
    assert (np.asarray(measured["train_accuracy"]) >= 0.9).all()
    assert all(np.isfinite(values).all() for values in metrics.values())


def test_a_method_refuses_a_network_that_does_not_fit():
    with pytest.raises(TypeError, match="give the learner an `AdversarialShape`"):
        make_learner(DANN()).init(jr.key(0))
    with pytest.raises(ValueError, match="tells 4 environments apart, but there are 3"):
        make_learner(DANN(), network=AdversarialShape(2, 8, 1, 4)).init(jr.key(0))


def test_an_environment_with_one_class_is_allowed():
    learner = make_learner(JoinGradients(and_mask(1.0)))
    data = learner.source.data
    labels = data.train.labels.at[0].set(1)
    one_class = Fixed(data._replace(train=data.train._replace(labels=labels)))
    learner = eqx.tree_at(lambda who: who.source, learner, one_class)
    _, metrics = advance(learner, start(learner), jr.key(1))
    assert np.isfinite(float(metrics["loss"]))


# Measures.


def test_accuracy_counts_right_answers():
    learner = make_learner()
    state = start(learner)
    zero = jax.tree.map(jnp.zeros_like, state.model)
    measured = learner.evaluate(state._replace(model=zero), jr.key(0))
    labels = data_of(learner).labels  # a logit of 0 means class 1
    assert float(measured["train_accuracy"]) == pytest.approx(float(labels.mean()))
    assert float(measured["test_accuracy"]) == pytest.approx(float(labels[0].mean()))


def test_multiclass_accuracy_and_loss():
    logits = jnp.array([0.0, 2.0, 1.0])
    assert bool(MULTICLASS.score(logits, jnp.int32(1)))
    assert not bool(MULTICLASS.score(logits, jnp.int32(2)))
    expected = -jax.nn.log_softmax(logits)[2]
    np.testing.assert_allclose(MULTICLASS.loss(logits, jnp.int32(2)), expected, rtol=1e-6)


def test_regression_learns_numbers_and_reports_squared_error():
    learner = make_learner(
        JoinGradients(and_mask(1.0)), objective=REGRESSION, optimizer=Descent(learning_rate=3e-2)
    )
    data = learner.source.data
    numbers = data.train.inputs[..., 0] * 2.0
    target = Fixed(
        Split(
            data.train._replace(labels=numbers),
            LabelledExamples(data.test.inputs, data.test.inputs[:, 0] * 2.0),
        )
    )
    learner = eqx.tree_at(lambda who: who.source, learner, target)
    state = start(learner)
    before = learner.evaluate(state, jr.key(0))
    for number in range(100):
        state, _ = advance(learner, state, jr.key(number))
    after = learner.evaluate(state, jr.key(0))
    assert float(after["test_squared_error"]) < 0.2 * float(before["test_squared_error"])
    np.testing.assert_allclose(REGRESSION.loss(jnp.array([3.0]), jnp.float32(1.0)), 4.0)


def test_the_network_starts_as_the_authors_code_does():
    model = MLP((400, 300, 1), key=jr.key(0))
    assert float(model.weights[0].std()) == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert all(jnp.all(bias == 0.01) for bias in model.biases)
    x = jr.normal(jr.key(1), (400,))
    hidden = x @ model.weights[0] + 0.01
    expected = jnp.where(hidden > 0, hidden, 0.01 * hidden) @ model.weights[1] + 0.01
    np.testing.assert_allclose(model(x), expected, rtol=1e-5)


def test_a_uniform_start_is_bounded_by_the_fan_in():
    model = MLP((400, 300, 1), key=jr.key(0), start="uniform")
    for weight, bias, fan_in in zip(model.weights, model.biases, (400, 300), strict=True):
        assert float(jnp.abs(weight).max()) <= fan_in**-0.5
        assert float(jnp.abs(bias).max()) <= fan_in**-0.5
    assert float(model.weights[0].std()) == pytest.approx((1 / 400 / 3) ** 0.5, rel=0.02)


def test_the_probe_is_drawn_through_the_network():
    grid = jnp.zeros((3, 4, 2)).at[0, 0, 0].set(1.5)
    learner = make_learner(probe=grid)
    state = start(learner)
    shown = learner.inspect(state, jr.key(0))
    assert shown["probe_logits"].shape == (3, 4, 1)
    assert float(shown["probe_reach"]) == 1.5
    np.testing.assert_allclose(shown["probe_logits"][1, 0], state.model(grid[1, 0]), rtol=1e-6)
    assert make_learner().inspect(state, jr.key(0)) == {}
