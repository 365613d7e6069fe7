"""The rows of modular hypernetworks: what they are made of, what they measure, what they draw."""

import dataclasses
import operator
import shutil
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from matplotlib.figure import Figure

from recombine.experiments import find_row
from recombine.experiments.hypernetworks import MODULAR
from recombine.experiments.hypernetworks._config import (
    EPS_ROOT,
    HyperteacherConfig,
    HyperteacherSupport,
    TheoryConfig,
    TheorySupport,
)
from recombine.experiments.hypernetworks._drawn_supports import describe_codes
from recombine.experiments.hypernetworks._hyperteacher_learner import (
    architecture_of,
    make_hyperteacher_learner,
    sample_hyperteacher,
)
from recombine.experiments.hypernetworks._making_hyperteacher_rows import (
    EPS_ROOTS,
    PUBLISHED,
    PUBLISHED_STEPS,
    RATE_FACTORS,
)
from recombine.experiments.hypernetworks._orderings import AboveEach, BelowEach, Lead
from recombine.experiments.hypernetworks._theory_learner import (
    make_theory_learner,
    padded_masks,
    sample_theory,
)
from recombine.experiments.hypernetworks._theory_rows import CONTINUOUS, DISCRETE
from recombine.methods.adaptation import DIFFERENTIABLE_EPS
from recombine.methods.hypernetworks import (
    AmortisedConfig,
    EncoderConfig,
    ExperimentName,
    HyperNetworkConfig,
    InnerLoop,
    LearnerName as KnownLearner,
    MonolithicConfig,
    SoftLabels,
    TaskEmbedding,
    published_settings,
)
from recombine.tasks.hyperteacher import (
    THEORY_SUPPORTS,
    Examples,
    SupportName,
    is_connected,
    is_identifying,
    support_rank,
    theory_masks,
)
from recombine.training import Checkpoints, fit

MAIN = ("theory/continuous", "theory/discrete", "compositional", "noncompositional")


# --- rows --------------------------------------------------------------------------------------


def test_configs_know_the_names_of_tasks_and_learners():
    assert set(get_args(TheorySupport)) == set(THEORY_SUPPORTS)
    assert set(get_args(HyperteacherSupport)) < set(get_args(SupportName))
    assert set(PUBLISHED) == set(get_args(KnownLearner))
    assert "hyperteacher" in get_args(ExperimentName)
    assert EPS_ROOT == DIFFERENTIABLE_EPS  # configs know it without JAX


@pytest.mark.parametrize("learner", PUBLISHED)
def test_full_rows_have_the_published_settings_but_for_what_is_shorter(learner):
    row = find_row(f"modular/hyperteacher/compositional/{learner}")
    made = row.make_learner(row.full.config, row.full.steps).meta
    architecture, inner, outer = published_settings(
        "hyperteacher", learner, num_inputs=16, num_outputs=8
    )
    assert made.architecture == architecture
    rate = RATE_FACTORS[learner] * outer.learning_rate  # where the cosine starts
    outer = dataclasses.replace(
        outer, learning_rate=rate, decay_steps=row.full.steps, clip_tasks=1.0
    )
    inner = dataclasses.replace(
        inner, keep="everything", eps_root=EPS_ROOTS[learner]
    )  # the first changes time alone
    for ours, published in ((made.inner, inner), (made.outer, outer)):
        assert jax.tree.structure(ours) == jax.tree.structure(published)
        assert jax.tree.leaves(ours) == jax.tree.leaves(published)
    assert (made.num_tasks, made.num_measured) == (16, 1024)
    assert made.source.num_combinations == 1296
    assert f"{row.full.steps:,}" in row.full.note  # what is shorter is said
    assert f"{PUBLISHED_STEPS:,}" in row.full.note
    assert ("twice" in row.full.note) == (RATE_FACTORS[learner] == 2)
    assert f"{EPS_ROOTS[learner]:g} under the root" in row.full.note


def test_the_constant_under_a_root_is_the_published_one_unless_a_row_says_otherwise():
    published = HyperteacherConfig()
    for config, expected in (
        (published, 2.0**-23),
        (dataclasses.replace(published, inner_eps_root=0.25), 0.25),
    ):
        inner = make_hyperteacher_learner(config, 1).meta.inner
        assert float(inner.eps_root) == expected


def test_supports_are_labelled_as_the_theory_predicts():
    for group, continuous in ((CONTINUOUS, True), (DISCRETE, False)):
        for row in group.rows:
            good = is_identifying(theory_masks(row.full.config.support), continuous=continuous)
            assert row.method.endswith("good" if good else "bad")
            assert row.metric.higher_is_better == good
    assert [len(group.rows) for group in (CONTINUOUS, DISCRETE)] == [8, 10]


@pytest.mark.parametrize("support", THEORY_SUPPORTS)
def test_supports_that_a_seed_draws_are_described_as_those_on_the_host(support):
    masks = theory_masks(support)
    unused = np.zeros((2, masks.shape[1]))  # tasks that are not trained say nothing
    found = jax.jit(describe_codes)(jnp.asarray(np.concatenate([masks, unused]), jnp.float32))
    assert float(found["support_rank"]) == support_rank(masks)
    assert bool(found["support_connected"]) == is_connected(masks)


def test_main_rows_have_a_quick_variant_and_compare_with_rows_that_have_one():
    quick = {row.id for row in MODULAR.rows if row.quick}
    for group in MODULAR.groups:
        if group.id.removeprefix("modular/").removeprefix("hyperteacher/") in MAIN:
            assert {row.id for row in group.rows} <= quick
    known = {row.id for row in MODULAR.rows}
    for row in MODULAR.rows:
        for variant, there in ((row.full, known), (row.quick, quick)):
            if variant is not None:
                assert rows_named_in(variant.rule) <= there, row.id


def test_quick_sweeps_keep_what_their_rows_vary():
    for row in MODULAR.rows:
        full, quick = row.full.config, row.quick and row.quick.config
        if "/heldout/" in row.id or "/scaling/" in row.id:
            assert (quick.num_modules, quick.held_out) == (full.num_modules, full.held_out)
            assert f"{full.num_modules} modules" in row.quick.note
        elif "/shots/" in row.id:
            assert quick.num_support * 16 == full.num_support
            published = find_row(row.full.rule.rows[0]).quick.config
            assert quick.num_support < published.num_support <= 16


def rows_named_in(rule) -> set[str]:
    """Returns the rows that a rule compares with, also inside of joined rules."""
    found: set[str] = set()
    for field in dataclasses.fields(rule):
        value = getattr(rule, field.name)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, str) and "/" in one:
                found.add(one)
            elif dataclasses.is_dataclass(one):
                found |= rows_named_in(one)
    return found


def test_an_encoder_needs_a_hypernetwork():
    config = HyperteacherConfig(learner="anil", encoder="deep-set")
    with pytest.raises(ValueError, match=r"`encoder` .* and anil has none; leave it out"):
        architecture_of(config)


# --- orderings ---------------------------------------------------------------------------------


FINALS = {
    "a": {"x": np.array([0.5, 0.7])},
    "b": {"x": np.array([0.3, 0.5])},
    "c": {"x": np.array([0.1, 0.1])},
}


def judge(rule, row="a"):
    return rule.judge("x", FINALS[row], FINALS.get)


def test_a_row_is_compared_with_the_nearest_of_several():
    assert judge(AboveEach(("b", "c"))).holds is True
    assert "above 0.4, from b, the nearest of 2" in judge(AboveEach(("b", "c"))).reason
    assert judge(AboveEach(("b", "c"), margin=0.25)).holds is False
    # Both standard errors are 0.1: their sum is not exceeded, though the means differ.
    assert judge(AboveEach(("b",), beyond_errors=True)).holds is False
    assert judge(AboveEach(("c",), beyond_errors=True)).holds is True
    assert judge(BelowEach(("a", "b")), "c").holds is True
    assert judge(BelowEach(("a",), factor=0.1), "c").holds is False
    assert judge(BelowEach(("a",), factor=0.2), "c").holds is True
    assert judge(AboveEach(("b",), factor=1.4)).holds is True
    assert judge(AboveEach(("b",), factor=1.6)).holds is False


def test_what_was_not_run_is_not_judged():
    judged = judge(AboveEach(("b", "d", "e")))
    assert judged.holds is None
    assert judged.reason.startswith("d, e must be run in the same variant")
    assert judge(AboveEach(("b",), metric="y")).holds is None
    assert judge(Lead(("b",), "d", ("c",), larger=True)).holds is None


def test_leads_are_compared():
    # a leads b by 0.2, b leads c by 0.3
    rule = Lead(("b", "c"), "b", ("c",), larger=False)
    assert judge(rule).holds is True
    assert judge(dataclasses.replace(rule, larger=True)).holds is False
    assert "by 0.2 in x, must be below the 0.3 of b" in judge(rule).reason


# --- learners ----------------------------------------------------------------------------------


def test_all_supports_of_the_theory_share_one_program():
    row = CONTINUOUS.rows[0]
    made = [
        make_theory_learner(dataclasses.replace(row.tiny.config, support=name), 2)
        for name in THEORY_SUPPORTS
    ]
    assert len({jax.tree.structure(learner) for learner in made}) == 1
    shapes = {tuple(leaf.shape for leaf in jax.tree.leaves(learner)) for learner in made}
    assert len(shapes) == 1
    for name in THEORY_SUPPORTS:
        masks, times = np.unique(padded_masks(name), axis=0, return_counts=True)
        assert len(masks) == len(theory_masks(name))
        assert len(set(times.tolist())) == 1


TWIN = TheoryConfig(
    support="pairs-split",
    num_inputs=6,
    width=4,
    width_factor=1.0,
    latent_factor=1.0,
    num_rows=32,
    num_query_rows=16,
    num_measured=64,
    chunk_size=64,
    inner_optimizer="gauss-newton",
    inner_steps=8,
    inner_rate=1.0,
    long_inner_steps=9,
)


def measured_twins(what):
    """What is measured of a random student, and of one that is its teacher in disguise."""
    learner = make_theory_learner(TWIN, 10)
    state = eqx.filter_jit(learner.init)(jr.key(0))
    twin = eqx.tree_at(
        lambda m: (m.modules, m.readout),
        state.model,
        # Units in another order and of another size.
        (3 * state.world.modules[:, :, ::-1], state.world.readout[::-1] / 3),
    )
    measure = eqx.filter_jit(getattr(learner, what))
    return measure(state, jr.key(1)), measure(state._replace(model=twin), jr.key(1))


@pytest.mark.slow
def test_a_student_that_is_its_teacher_is_measured_as_such():
    random, twin = measured_twins("evaluate")
    assert twin["joint_alignment"] > 0.97
    assert twin["max_min_alignment"] > 0.95
    assert twin["unseen_r2"] > 0.97
    assert twin["unseen_relative_loss"] < 0.01
    assert random["joint_alignment"] < 0.8
    assert random["unseen_loss"] > 10 * twin["unseen_loss"]


@pytest.mark.slow
def test_its_final_measures_say_the_same():
    _, twin = measured_twins("final")
    assert twin["corrected_alignment"] > 0.95
    assert twin["task_independent_alignment"] > 0.97
    assert twin["unseen_latent_r2"] > 0.9
    assert twin["unseen_loss_longer"] < 2 * twin["unseen_loss"] + 1e-4
    assert twin["support_rank"] == 6
    assert not twin["support_connected"]
    assert twin["parameters"] == 6 * 6 * 4 + 4 * 4


ADAPTED: dict[str, Any] = {"num_inputs": 3, "num_outputs": 2, "width": 4, "num_hidden": 2}
LINEAR = HyperNetworkConfig(num_templates=3, **ADAPTED)
DEEP = dataclasses.replace(LINEAR, bank="deep", trunk=(3,), adapts_bias=False)
ENCODER = EncoderConfig(width=4, num_layers=1)
EMBEDDING = {".input": 3, ".hidden": 3, ".output": 3}
HEAD = {".weight": 4 * 2, ".bias": 2}
BODY = {
    ".body.layers[0].weight": 3 * 4,
    ".body.layers[0].bias": 4,
    ".body.layers[1].weight": 4 * 4,
    ".body.layers[1].bias": 4,
}
NETWORK = {**BODY, **{f".head{name}": size for name, size in HEAD.items()}}


def named_leaves(tree):
    """The arrays of a tree by their names."""
    named = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): np.array(leaf) for path, leaf in named}


def names_of_moved(before, after):
    assert before.keys() == after.keys()
    return {name for name in before if (before[name] != after[name]).any()}


@pytest.mark.parametrize(
    ("architecture", "place", "own"),
    [
        (LINEAR, "embedding", {**EMBEDDING, ".bias": 2}),
        (DEEP, "embedding", EMBEDDING),
        (MonolithicConfig(**ADAPTED), "network.head", HEAD),
        (MonolithicConfig(adapts="everything", **ADAPTED), "network", NETWORK),
        (AmortisedConfig(LINEAR, ENCODER), "hypernetwork.embedding", {**EMBEDDING, ".bias": 2}),
    ],
    ids=["linear", "deep", "anil", "maml", "amortised"],
)
def test_a_task_changes_its_own_parameters_and_no_others(
    architecture, place, own, quick_compilation
):
    config = HyperteacherConfig(num_inputs=3, num_outputs=2, num_modules=2, max_active=1)
    learner = make_hyperteacher_learner(config, 1).meta
    learner = dataclasses.replace(
        learner, architecture=architecture, inner=InnerLoop(learning_rate=0.02)
    )
    inputs = jr.normal(jr.key(1), (5, 3))
    targets, others = jax.nn.softmax(jr.normal(jr.key(2), (2, 5, 2)))

    def without_bias(task):  # which starts at zero for every task, and is no one's but the task's
        return task._replace(bias=None) if isinstance(task, TaskEmbedding) else task

    @eqx.filter_jit
    def adapt(model, targets):
        start = model.start(inputs, targets, None, key=jr.key(3))
        found = learner.adapt(model, Examples(inputs, targets), jr.key(4)).params
        # The model as it would be if what the task has learned were everybody's.
        moved = eqx.tree_at(operator.attrgetter(place), model, without_bias(found))
        outputs = [m.predict(t, m.read(inputs)) for m, t in ((model, start), (moved, found))]
        losses = [SoftLabels().loss(output, targets, None) for output in outputs]
        return start, found, moved, losses, model.predict(found, model.read(inputs)) - outputs[1]

    model = eqx.filter_jit(architecture.make)(key=jr.key(0))
    shared = named_leaves(model)
    start, found, moved, (before, after), difference = adapt(model, targets)
    adapt(model, others)
    again = adapt(model, targets)
    assert eqx.tree_equal(found, again[1])  # one task leaves no trace for the next
    assert not names_of_moved(shared, named_leaves(model))
    assert {name: leaf.size for name, leaf in named_leaves(start).items()} == own
    assert names_of_moved(named_leaves(start), named_leaves(found)) == set(own)
    in_model = {f".{place}{name}" for name in named_leaves(without_bias(found))}
    assert names_of_moved(shared, named_leaves(moved)) == in_model
    assert not difference.any()  # and with those leaves the model does what the task does
    assert after < before


def test_a_run_that_was_interrupted_ends_as_one_that_was_not(tmp_path, quick_compilation):
    tiny = find_row("modular/hyperteacher/compositional/linear-hnet").tiny.config
    config = dataclasses.replace(tiny, num_modules=2, outer_decays=True)
    learner = make_hyperteacher_learner(config, 4).meta
    learner = dataclasses.replace(learner, watched=("test",), decodes=None)  # to compile less

    def run(name):
        checkpoints = Checkpoints(tmp_path / name, every_seconds=0)
        return fit(learner, steps=4, eval_every=2, checkpoints=checkpoints, progress=False)

    whole = run("whole")
    shutil.copytree(tmp_path / "whole" / "2", tmp_path / "stopped" / "2")  # after two steps
    resumed = run("stopped")
    assert (tmp_path / "stopped" / "4").exists()
    assert resumed.history.steps == whole.history.steps == [0, 2, 4]
    assert eqx.tree_equal(resumed.state, whole.state)
    for ours, theirs in (
        (resumed.history.curves(), whole.history.curves()),
        (resumed.final, whole.final),
    ):
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


# --- pictures ----------------------------------------------------------------------------------


def title_of(picture, arrays) -> str:
    figure = Figure()
    axes = figure.add_subplot()
    picture.draw(axes, arrays)
    figure.draw_without_rendering()
    assert axes.has_data()
    return axes.get_title()


@pytest.mark.parametrize(
    ("support", "title"),
    [
        ("pairs-ring", "connected, rank 5 of 6"),
        ("pairs-split", "2 parts, rank 6 of 6"),
        ("onehot", "6 parts, rank 6 of 6"),
        ("onehot+all6", "connected, rank 6 of 6"),
    ],
)
def test_supports_of_the_theory_are_drawn_as_graphs(support, title):
    arrays = sample_theory(TheoryConfig(support=support))
    assert title_of(CONTINUOUS.rows[0].pictures[0], arrays) == title
    padded = {"masks": padded_masks(support)}
    assert title_of(CONTINUOUS.rows[0].pictures[0], padded) == title


@pytest.mark.parametrize(
    ("support", "title"),
    [
        ("connected", "connected"),
        ("disconnected", "2 parts"),
        ("disconnected-clean", "2 parts"),
        ("non-compositional", "connected, 1 never trained"),
    ],
)
def test_supports_of_the_hyperteacher_are_drawn_as_graphs(support, title):
    row = find_row("modular/hyperteacher/connected/connected/linear-hnet")
    arrays = sample_hyperteacher(HyperteacherConfig(support=support))
    assert title_of(row.pictures[0], arrays) == title


def test_a_split_that_every_seed_draws_is_drawn_only_after_a_run():
    assert sample_hyperteacher(HyperteacherConfig(support="random")) == {}


def test_other_pictures_show_what_was_found():
    found = find_row("modular/theory/continuous/all6").pictures[1]
    cosines = np.stack([np.eye(4), np.eye(4)])
    assert "best of each row 1.00" in title_of(found, {"unit_cosines": cosines})
    decoded = find_row("modular/hyperteacher/compositional/maml").pictures[1]
    for scores in (np.array([[0.9, -50.0, np.nan]]), np.full((2, 3), 0.5)):
        assert "R²" in title_of(decoded, {"decoded": scores})
