"""Meta-learning: gradients through adaptation, what is adapted, and when it runs away."""

import collections
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from recombine.methods.adaptation import adapt
from recombine.methods.hypernetworks import (
    AmortisedConfig,
    Anil,
    EncoderConfig,
    HyperNetworkConfig,
    InnerLoop,
    MetaLearner,
    ModularStudentConfig,
    MonolithicConfig,
    Network,
    OuterLoop,
    SoftLabels,
    SquaredError,
    draw_weights,
)
from recombine.tasks.goal_grid import make_goal_grid
from recombine.tasks.hyperteacher import make_hyperteacher
from recombine.training import NonFiniteError, fit


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


class Examples(NamedTuple):
    inputs: jax.Array
    targets: jax.Array
    weights: jax.Array | None = None


class Task(NamedTuple):
    support: Examples
    query: Examples
    latent: jax.Array


class Waves(eqx.Module):
    """Sums of two waves, weighted by the task; the second set doubles the weights."""

    rows: int = eqx.field(static=True, default=6)
    inputs: int = eqx.field(static=True, default=3)

    @property
    def sets(self):
        return ("near", "far")

    def begin(self, key):
        return jr.normal(key, (2, self.inputs))

    def sample(self, world, key, num_tasks):
        return self.sample_set(world, "near", key, num_tasks)

    def sample_set(self, world, name, key, num_tasks):
        latents = jr.uniform(key, (num_tasks, 2), minval=0.5) * (2.0 if name == "far" else 1.0)

        def one(latent, key):
            support, query = (self.fresh(world, latent, k) for k in jr.split(key))
            return Task(support, query, latent)

        return jax.vmap(one)(latents, jr.split(key, num_tasks))

    def fresh(self, world, latent, key):
        inputs = jr.normal(key, (self.rows, self.inputs))
        waves = jnp.sin(inputs @ world.T)
        return Examples(inputs, (waves @ latent)[:, None] * jnp.ones((1, 2)))


TINY = {"num_inputs": 3, "num_outputs": 2, "width": 4}
HNET = HyperNetworkConfig(num_templates=3, num_hidden=2, **TINY)
ARCHITECTURES = {
    "linear": HNET,
    "deep": dataclasses.replace(HNET, bank="deep", adapts_bias=False, trunk=(3,), num_hidden=1),
    "anil": MonolithicConfig(num_hidden=1, **TINY),
    "maml": MonolithicConfig(num_hidden=1, adapts="everything", **TINY),
    "amortised": AmortisedConfig(
        dataclasses.replace(HNET, num_hidden=1), EncoderConfig(width=4, num_layers=1)
    ),
    "student": ModularStudentConfig(num_latents=3, **TINY),
}
INNER = {
    "anil": InnerLoop(learning_rate=0.1, num_steps=2, batch_size=4),
    "student": InnerLoop(
        learning_rate=0.1, num_steps=2, fresh=True, order="first", optimizer="adam"
    ),
}


def learner_of(name, **changes):
    settings = {
        "inner": INNER.get(name, InnerLoop(learning_rate=0.1, num_steps=2)),
        "num_tasks": 3,
        "num_measured": 4,
        "chunk_size": 2,
        **changes,
    }
    return MetaLearner(Waves(), ARCHITECTURES[name], SquaredError(), **settings)


def slow(name):
    return pytest.param(name, marks=pytest.mark.slow)


@eqx.filter_jit
def two_steps(learner, key):
    """The state at the start, and then states and metrics after each of two steps, stacked."""
    state = learner.init(key)

    def one(state, key):
        state, metrics = learner.step(state, key)
        return state, (state, metrics)

    return state, *jax.lax.scan(one, state, jr.split(jr.key(1)))[1]


def model_at(states, number):
    return jax.tree.map(lambda leaf: leaf[number], states.model)


@pytest.mark.parametrize(
    "name", ["linear", "student", slow("anil"), slow("deep"), slow("maml"), slow("amortised")]
)
def test_every_learner_keeps_the_contract(name):
    learner = learner_of(name)
    state, states, metrics = two_steps(learner, jr.key(0))  # a scan: states do not change shape
    assert states.step.tolist() == [1, 2]
    assert all(value.shape == (2,) for value in metrics.values())
    assert all(jnp.isfinite(value).all() for value in metrics.values())
    assert not metrics["diverged"].any()
    assert not metrics["skipped"].any()
    before, after = (jax.tree.leaves(m) for m in (state.model, model_at(states, 0)))
    moved = [bool((a != b).any()) for a, b in zip(before, after, strict=True) if a.size]
    still = 1 if name == "student" else 0  # where inference starts is not learned
    assert moved.count(False) == still
    again = learner_of(name)
    assert jax.tree.structure(learner) == jax.tree.structure(again)
    assert hash(jax.tree.structure(learner)) == hash(jax.tree.structure(again))
    assert eqx.tree_equal(two_steps(again, jr.key(0))[1].model, states.model)


@pytest.mark.slow
def test_seeds_can_be_run_together():
    learner = learner_of("linear", decodes=("near", "far"))
    one, several = (
        fit(learner, steps=2, eval_every=2, seeds=seeds, progress=False, vectorize=vectorize).final
        for seeds, vectorize in (((7,), False), ((3, 7), True))
    )
    for name, values in one.items():
        np.testing.assert_allclose(several[name][1], values[0], rtol=1e-3, atol=1e-4)


def test_measures_are_of_the_same_tasks_every_time():
    learner = learner_of("linear", decodes=("near", "far"), watched=("far",))

    @eqx.filter_jit
    def measure(key):
        state = learner.init(jr.key(0))
        return learner.final(state, key), learner.adapt_set(state, "far", num_tasks=4)

    final, outcomes = measure(jr.key(1))
    assert eqx.tree_equal(measure(jr.key(2)), (final, outcomes))
    measures = {f"{n}_{m}" for n in ("near", "far") for m in ("loss", "power", "diverged")}
    assert set(final) == measures | {"decoded_mean", "decoded_min"}
    np.testing.assert_allclose(final["far_loss"], outcomes.measures["loss"].mean(), rtol=1e-5)
    assert outcomes.adapted.shape == (4, 3 * 3 + 2)  # three rows of three, and two biases
    assert outcomes.outputs.shape == outcomes.query.targets.shape == (4, 6, 2)
    assert (outcomes.latents >= 1).all()
    state = eqx.filter_eval_shape(learner.init, jr.key(0))
    watched = eqx.filter_eval_shape(learner.evaluate, state, jr.key(0))
    assert set(watched) == {"far_loss", "far_power", "far_diverged"}
    seen = eqx.filter_eval_shape(learner.inspect, state, jr.key(0))
    assert seen["far_support_losses"].shape == (4, 2)
    assert seen["far_task_loss"].shape == (4,)
    assert seen["decoded"].shape == (2,)


class Recorded(eqx.Module):
    """A source that tells of every set that is drawn from it; training has no name."""

    source: Any
    tell: Callable = eqx.field(static=True)

    @property
    def sets(self):
        return self.source.sets

    def begin(self, key):
        return self.source.begin(key)

    def sample(self, world, key, num_tasks):
        return self._told("", self.source.sample(world, key, num_tasks))

    def sample_set(self, world, name, key, num_tasks):
        return self._told(name, self.source.sample_set(world, name, key, num_tasks))

    def _told(self, name, tasks):
        both = jnp.concatenate([tasks.support.inputs, tasks.query.inputs], axis=1)
        jax.debug.callback(functools.partial(self.tell, name), both)
        return tasks


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (lambda: make_hyperteacher(num_modules=2, num_support=3, num_query=2, width=3), [0, 3]),
        pytest.param(
            lambda: make_goal_grid(num_mazes=5, size=5, nearest_start=4, num_steps=17),
            [0, 17],  # of a demonstration, its first row: that shows the whole scene
            marks=pytest.mark.slow,
        ),
    ],
    ids=["hyperteacher", "goal grid"],
)
def test_what_is_measured_is_the_same_every_time_and_never_trained(make, rows):
    drawn = collections.defaultdict(list)
    source = make()
    sizes = {"num_inputs": source.num_inputs, "num_outputs": source.num_outputs}
    learner = MetaLearner(
        Recorded(source, lambda name, inputs: drawn[name].append(np.asarray(inputs))),
        MonolithicConfig(width=2, num_hidden=1, adapts="everything", **sizes),
        SoftLabels(),
        InnerLoop(num_steps=0),
        num_tasks=8,
        num_measured=8,
        watched=("test",),
    )
    fit(learner, steps=4, eval_every=2, progress=False)
    jax.effects_barrier()

    def seen(tasks):
        return {row.tobytes() for task in tasks for row in task[rows]}

    trained = [seen(tasks) for tasks in drawn.pop("")]
    assert len(trained) == 4
    assert len(set.union(*trained)) == 4 * 8 * len(rows)  # and no step repeats another
    assert {"valid", "test", "ood"} <= set(drawn)
    measured = {}
    for name, times in drawn.items():
        assert len(times) == (4 if name == "test" else 1)  # three times, and in the end
        for tasks in times:
            np.testing.assert_array_equal(tasks, times[0])
        measured[name] = seen(times[0])
        assert not measured[name] & set.union(*trained), name
    assert not measured["valid"] & measured["test"]  # of the same combinations, yet others


def begin(name, **changes):
    """A learner, a model and a task, made in one program."""
    learner = learner_of(name, **changes)

    @jax.jit
    def draw():
        world = learner.source.begin(jr.key(0))
        task = jax.tree.map(lambda x: x[0], learner.source.sample(world, jr.key(1), 1))
        return learner.architecture.make(key=jr.key(2)), task

    return learner, *draw()


def query_loss(learner, model, task):
    found = learner.adapt(model, task.support, jr.key(3))
    outputs = model.predict(found.params, model.read(task.query.inputs))
    return learner.objective.loss(outputs, task.query.targets, None)


def scaled(rows):
    return rows / jnp.sqrt(jnp.mean(jnp.square(rows), axis=-1, keepdims=True))


@pytest.mark.parametrize("name", ["linear", "deep", "anil", "maml", slow("amortised")])
def test_meta_gradients_agree_with_finite_differences(name, monkeypatch):
    # The scale of an embedding is a constant to derivatives, by design; here it is not.
    monkeypatch.setattr("recombine.methods.hypernetworks._hypernetwork.normalize_embedding", scaled)
    with jax.enable_x64(True):
        learner = learner_of(name)

        @jax.jit
        def along(by):
            """The loss of a model moved along a direction, and its derivative that way."""
            world = learner.source.begin(jr.key(0))
            task = jax.tree.map(lambda x: x[0], learner.source.sample(world, jr.key(1), 1))
            model = learner.architecture.make(key=jr.key(2))
            way = jax.tree.map(lambda leaf: jnp.cos(jnp.arange(leaf.size)), model)
            way = jax.tree.map(lambda leaf, like: leaf.reshape(like.shape), way, model)
            moved = jax.tree.map(lambda leaf, d: leaf + by * d, model, way)
            value, grads = jax.value_and_grad(lambda m: query_loss(learner, m, task))(moved)
            products = jax.tree.map(lambda g, d: jnp.sum(g * d), grads, way)
            return value, sum(jax.tree.leaves(products))

        measured = (along(1e-6)[0] - along(-1e-6)[0]) / 2e-6
        np.testing.assert_allclose(measured, along(0.0)[1], rtol=2e-5)


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("linear", "adamw"),
        *(pytest.param(name, "sgd", marks=pytest.mark.slow) for name in ("deep", "anil", "maml")),
    ],
)
def test_first_order_is_another_gradient_of_the_same_loss(name, optimizer):
    inner = dataclasses.replace(INNER.get(name, InnerLoop(num_steps=2)), optimizer=optimizer)
    learner, model, task = begin(name, inner=inner)
    first = dataclasses.replace(learner, inner=dataclasses.replace(inner, order="first"))

    @jax.jit
    def both(model):
        found = [
            jax.value_and_grad(lambda m, one=one: query_loss(one, m, task))(model)
            for one in (learner, first)
        ]
        return [(value, ravel_pytree(grads)[0]) for value, grads in found]

    (value, second), (same, other) = both(model)
    np.testing.assert_allclose(value, same, rtol=1e-5)
    difference = float(jnp.linalg.norm(second - other) / jnp.linalg.norm(second))
    assert difference > 0.01


def test_anil_with_features_read_once_equals_adapting_the_head_of_a_network():
    with jax.enable_x64(True):  # Adam's derivative is steep where an inner gradient is small
        learner, model, task = begin("anil")
        support, loop = task.support, learner.inner
        _, batch_key = jr.split(jr.key(3))
        weights = draw_weights(batch_key, loop.num_steps, loop.batch_size, support)
        assert weights.shape == (2, 6)  # the same minibatches for both
        head_only = eqx.tree_at(
            lambda n: n.head, jax.tree.map(lambda _: False, model.network), replace=True
        )

        def naive(network: Network):
            def loss(network, row_weights):
                return SquaredError().loss(network(support.inputs), support.targets, row_weights)

            optimizer = loop.transformation()
            found = adapt(loss, network, optimizer, batches=weights, adapts=head_only).params
            return SquaredError().loss(found(task.query.inputs), task.query.targets, None), found

        def cached(network: Network):
            model = Anil(network)
            value = query_loss(learner, model, task)
            return value, learner.adapt(model, support, jr.key(3)).params

        @jax.jit
        def both(network):
            return [jax.value_and_grad(f, has_aux=True)(network) for f in (naive, cached)]

        ((value, whole), grads), ((same, head), read_once) = both(model.network)
    assert value.dtype == jnp.float64
    np.testing.assert_allclose(same, value, rtol=1e-5)
    for found, expected in ((head, whole.head), (read_once, grads)):
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert np.abs(b).max() > 0
            np.testing.assert_allclose(a, b, rtol=1e-10)
    assert eqx.tree_equal(whole.body, model.network.body)


def test_minibatches_as_weights_and_as_rows_are_the_same():
    learner, model, task = begin("anil")
    counts = draw_weights(jr.key(1), 5, 4, task.support)
    assert counts.shape == (5, 6)
    np.testing.assert_array_equal(counts.sum(axis=1), 4)
    masked = draw_weights(
        jr.key(1), 5, 4, task.support._replace(weights=jnp.array([1.0, 0, 1, 1, 1, 1]))
    )
    np.testing.assert_array_equal(masked, counts.at[:, 1].set(0))
    by_rows = dataclasses.replace(learner.inner, minibatch_by="rows")
    other = dataclasses.replace(learner, inner=by_rows)
    one, two = (
        eqx.filter_jit(one.adapt)(model, task.support, jr.key(5)) for one in (learner, other)
    )
    np.testing.assert_allclose(one.params.weight, two.params.weight, rtol=1e-4)
    np.testing.assert_allclose(one.losses, two.losses, rtol=1e-4)


def test_amortised_inference_can_do_without_steps():
    learner, model, task = begin("amortised", inner=InnerLoop(num_steps=0))

    @jax.jit
    def both(model):
        started = model.start(task.support.inputs, task.support.targets, None, key=jr.key(0))
        return learner.adapt(model, task.support, jr.key(0)), started

    found, started = both(model)
    assert eqx.tree_equal(found.params, started)
    assert found.losses.shape == (0,)


class SomeBad(Waves):
    """The support of the first so many tasks cannot be adapted to."""

    num_bad: jax.Array = eqx.field(converter=jnp.asarray, default=1)

    def sample(self, world, key, num_tasks):
        tasks = self.sample_set(world, "near", key, num_tasks)
        is_bad = jnp.arange(num_tasks)[:, None, None] < self.num_bad
        inputs = jnp.where(is_bad, jnp.inf, tasks.support.inputs)
        return tasks._replace(support=tasks.support._replace(inputs=inputs))


def running_away(num_bad, rate):
    inner = InnerLoop(learning_rate=rate, num_steps=2, optimizer="sgd")
    learner = learner_of("maml", inner=inner)
    learner = dataclasses.replace(learner, source=SomeBad(num_bad=num_bad))
    state, states, metrics = two_steps(learner, jr.key(0))
    assert eqx.tree_equal(model_at(states, 0), state.model)  # nothing bad was learned
    assert float(metrics["skipped"][0]) == 1.0
    return metrics


def test_tasks_that_run_away_are_counted_and_end_the_run_if_they_go_on():
    metrics = running_away(num_bad=1, rate=0.1)
    np.testing.assert_allclose(metrics["diverged"], 1 / 3, rtol=1e-5)
    assert jnp.isfinite(metrics["loss"][0])
    assert jnp.isnan(metrics["loss"][1])  # a second in a row


def test_an_inner_rate_that_is_far_too_large_ends_the_run_at_once():
    metrics = running_away(num_bad=0, rate=1e25)
    assert float(metrics["diverged"][0]) == 1.0
    assert jnp.isnan(metrics["loss"][0])


@pytest.mark.slow
def test_fit_says_so():
    inner = InnerLoop(learning_rate=1e25, num_steps=2, optimizer="sgd")
    with pytest.raises(NonFiniteError, match=r"not finite at step 1.*Lower the learning rate"):
        fit(learner_of("maml", inner=inner), steps=2, eval_every=2, progress=False)


def test_rates_are_values_not_programs():
    one = learner_of("linear")
    other = learner_of("linear", inner=InnerLoop(learning_rate=0.2, num_steps=2))
    assert jax.tree.structure(one) == jax.tree.structure(other)
    schedule = OuterLoop(learning_rate=1e-3, decay_steps=10, clip_norm=None, skips=False)
    params = jnp.ones(())
    transform = schedule.transformation()
    state = transform.init(params)
    rates = []
    for _ in range(11):
        updates, state = transform.update(jnp.ones(()), state, params)
        rates.append(-float(updates) / (1 + 1e-2))
    assert rates[0] == pytest.approx(1e-3, rel=1e-4)
    assert rates[-1] == pytest.approx(1e-6, rel=1e-2)
    assert isinstance(transform, optax.GradientTransformation)


GRADIENTS = np.array([1e-6, -1e-4, 1e-3, -3e-2, 0.2, -1.0, 5.0])  # of tasks, none of them zero


def inner_step(by, **settings):
    """One inner step where the inner gradient is `by`, and the derivative of where it ends."""
    inner = InnerLoop(learning_rate=0.25, weight_decay=0.0, num_steps=1, **settings)

    def end(by):
        start = jnp.zeros_like(by)
        steps = inner.transformation()
        return adapt(lambda x, _: by * x, start, steps, num_steps=1, order=inner.order).params

    return [np.asarray(found) for found in jax.jit(jax.vmap(jax.value_and_grad(end)))(by)]


@pytest.mark.parametrize("optimizer", ["adamw", "adam"])
@pytest.mark.parametrize("eps_root", [2.0**-23, 2.0**-10])
def test_a_step_and_its_derivative_by_hand(optimizer, eps_root):
    with jax.enable_x64(True):
        moved, slopes = inner_step(GRADIENTS, optimizer=optimizer, eps_root=eps_root)
    root = np.sqrt(GRADIENTS**2 + eps_root)
    np.testing.assert_allclose(moved, -0.25 * GRADIENTS / (root + 1e-8), rtol=1e-6)
    by_hand = (root + 1e-8 - GRADIENTS**2 / root) / (root + 1e-8) ** 2
    np.testing.assert_allclose(slopes, -0.25 * by_hand, rtol=1e-5)


def test_a_larger_constant_under_the_root_evens_out_derivatives_and_leaves_large_steps():
    with jax.enable_x64(True):
        small, large = (inner_step(GRADIENTS, eps_root=2.0**-number) for number in (23, 10))
    is_large = np.abs(GRADIENTS) > 5 * 2.0**-5  # several times the larger root
    assert is_large.sum() == 3
    np.testing.assert_allclose(large[0][is_large], small[0][is_large], rtol=0.02)
    # Where a gradient is close to zero the derivative is the rate over the root.
    steepest, flatter = (np.abs(slopes).max() for _, slopes in (small, large))
    assert steepest == pytest.approx(0.25 * 2**11.5, rel=1e-3)
    assert flatter == pytest.approx(0.25 * 2**5, rel=1e-3)


def test_first_order_steps_and_plain_descent_have_no_constant_under_a_root():
    sizes = np.abs(GRADIENTS) + 1e-8
    with jax.enable_x64(True):
        for settings, expected in (
            ({"order": "first"}, -0.25 * GRADIENTS / sizes),
            ({"order": "first", "optimizer": "adam"}, -0.25 * GRADIENTS / sizes),
            ({"optimizer": "sgd"}, -0.25 * GRADIENTS),
        ):
            for eps_root in (2.0**-23, 1.0):
                moved, _ = inner_step(GRADIENTS, eps_root=eps_root, **settings)
                np.testing.assert_allclose(moved, expected, rtol=1e-6)


def test_bad_sources_are_refused_with_what_to_do():
    with pytest.raises(LookupError, match="no set called 'ood'; it has near, far"):
        learner_of("linear", watched=("ood",))
    with pytest.raises(ValueError, match="multiple of `chunk_size`; got 5 and 2"):
        learner_of("linear", num_measured=5)

    class Closed(eqx.Module):
        sets = ("near",)

    with pytest.raises(TypeError, match="Closed has no method `fresh`"):
        MetaLearner(Closed(), HNET, SquaredError(), InnerLoop(fresh=True))  # pyright: ignore

    def start(**changes):
        settings = {"num_tasks": 2, "num_measured": 2, **changes}
        jax.eval_shape(MetaLearner(objective=SquaredError(), **settings).init, jr.key(0))

    with pytest.raises(ValueError, match=r"support inputs .* are 4 wide, the model expects 3"):
        start(source=Waves(inputs=4), architecture=HNET)
    with pytest.raises(ValueError, match=r"support targets .* are 2 wide, the model gives 5"):
        start(source=Waves(), architecture=dataclasses.replace(HNET, num_outputs=5))
    with pytest.raises(ValueError, match="no support rows, so there is nothing to adapt to"):
        start(source=Waves(rows=0), architecture=HNET)
