"""The rows of the grid worlds: published numbers, rules, what is measured and what is drawn."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from matplotlib.figure import Figure

from recombine.engines import RunRequest, run_row
from recombine.experiments.hypernetworks import _grid_pictures
from recombine.experiments.hypernetworks._goal_rows import GOAL_TASKS, GOALS_PUBLISHED
from recombine.experiments.hypernetworks._grid_learners import (
    ExpertActions,
    GridLearner,
    constant_loss,
    make_goal_learner,
    make_preference_learner,
)
from recombine.experiments.hypernetworks._preference_rows import PREFERENCE_PUBLISHED, PREFERENCES
from recombine.methods.hypernetworks import PUBLISHED, published_settings
from recombine.results import read_records
from recombine.tasks import goal_grid, preference_grid
from recombine.tasks.hyperteacher import Examples

ROWS = {row.id: row for group in (PREFERENCES, GOAL_TASKS) for row in group.rows}


@pytest.mark.parametrize(
    ("experiment", "configs", "make"),
    [
        ("preference", PREFERENCE_PUBLISHED, make_preference_learner),
        ("goals", GOALS_PUBLISHED, lambda config, steps: make_goal_learner(few(config), steps)),
    ],
)
def test_learners_have_the_published_numbers(experiment, configs, make):
    assert set(configs) == set(PUBLISHED[experiment])
    for name, config in configs.items():
        learner = make(config, 10)
        source = learner.meta.source
        architecture, inner, outer = published_settings(
            experiment, name, num_inputs=source.num_inputs, num_outputs=source.num_outputs
        )
        assert learner.meta.architecture == architecture
        assert eqx.tree_equal(learner.meta.inner, inner)
        assert eqx.tree_equal(learner.meta.outer, outer)
        assert (learner.meta.num_tasks, learner.meta.num_measured) == (128, 1024)
        assert eqx.tree_equal(learner, make(config, 20))
        other = make(dataclasses.replace(config, inner_eps_root=0.25), 10)
        assert float(learner.meta.inner.eps_root) == 2.0**-23
        assert float(other.meta.inner.eps_root) == 0.25


def test_quick_goals_are_small_versions_of_the_published_rows():
    for row in GOAL_TASKS.rows:
        variant = row.quick
        published = dataclasses.asdict(GOALS_PUBLISHED[row.full.config.learner])
        small = dataclasses.asdict(variant.config)
        assert small["support"] == row.full.config.support
        kept = ("learner", "held_out", "num_support", "num_hidden", "weight_decay")
        assert all(published[setting] == small[setting] for setting in kept)
        source = make_goal_learner(variant.config, 1).meta.source
        assert isinstance(source, goal_grid.GoalGrid)
        assert (source.num_inputs, source.horizon) == (5 * 5 * 7, 17)


def test_quick_preferences_are_small_versions_of_the_published_rows():
    made = {}
    for row in PREFERENCES.rows:
        variant = row.quick
        assert variant.num_seeds >= 2
        full, small = dataclasses.asdict(row.full.config), dataclasses.asdict(variant.config)
        kept = ("learner", "support", "max_active", "held_out", "adapts_bias", "weight_decay")
        kept += ("skips", "terminal_nothing")
        assert all(full[setting] == small[setting] for setting in kept)
        learner = make_preference_learner(variant.config, variant.steps)
        source = learner.meta.source
        assert (source.num_modules, source.num_types, source.num_inputs) == (6, 6, 7 * 7 * 8)
        assert "ood" in source.sets
        made[row.id] = eqx.filter(learner, eqx.is_array, inverse=True)
    for support, other in (("compositional", "noncompositional"), ("connected", "disconnected")):
        # Rows of one learner differ in numbers alone: they share programs.
        for row_id in (row_id for row_id in made if f"/{support}/" in row_id):
            assert made[row_id] == made[row_id.replace(support, other)]


def test_the_quick_rule_asks_that_a_module_that_never_occurs_costs_clearly_more():
    row = ROWS["modular/preference/noncompositional/anil"]

    def others(row_id):
        assert row_id == "modular/preference/compositional/anil"
        return {"ood_loss": np.full(2, 0.4), "ood_relative": np.full(2, 0.4)}

    for loss, relative, holds in ((0.6, 0.6, True), (0.45, 0.6, False), (0.6, 0.45, False)):
        finals = {"ood_loss": np.full(2, loss), "ood_relative": np.full(2, relative)}
        assert row.quick.rule.judge("ood_loss", finals, others).holds is holds


def few(config):
    return dataclasses.replace(config, num_mazes=5)


def test_the_supports_are_those_of_the_figures():
    of_row = {
        "/".join(row_id.split("/")[1:3]): row.full.config.support for row_id, row in ROWS.items()
    }
    assert of_row == {
        "preference/compositional": "random",
        "preference/noncompositional": "non-compositional",
        "preference/connected": "connected",
        "preference/disconnected": "disconnected",
        "goals/compositional": "random",
        "goals/noncompositional": "non-compositional",
    }
    assert len(ROWS) == 12 + 8
    for row_id, row in ROWS.items():
        if "preference" in row_id:
            assert row.full.config.max_active == (2 if "connected" in row_id else 3)


def test_rules_speak_of_rows_that_exist_and_hold_where_they_should():
    names = ("ood_loss", "ood_accuracy", "ood_all_correct", "test_relative", "ood_relative")
    names += ("test_accuracy",)

    def finals(row_id):
        """Numbers as the paper has them: lower losses and higher accuracies where it says so."""
        assert row_id in ROWS, row_id
        is_modular = "hnet" in row_id
        bad = (not is_modular) + 2 * ("non" in row_id or "dis" in row_id)
        accuracy = 0.9 - 0.1 * bad
        return {
            name: np.full(3, 0.1 * (1 + bad) if "loss" in name or "relative" in name else accuracy)
            for name in names
        }

    for row_id, row in ROWS.items():
        metric = row.metric.name
        rules = [variant.rule for variant in (row.full, row.quick) if variant]
        is_good = "hnet" in row_id and "non" not in row_id and "dis" not in row_id
        # Far too good for a row that must be worse than another, and the other way round.
        turned = {
            name: np.full(3, 10.0 if ("loss" in name or "relative" in name) == is_good else 0.0)
            for name in names
        }
        for rule in rules:
            judged = rule.judge(metric, finals(row_id), finals)
            assert judged.holds, (row_id, judged.reason)
            assert rule.judge(metric, turned, finals).holds is False, row_id


# What is measured.


def test_the_measures_of_a_demonstration_by_hand():
    """Four rows, the last of which does not count; row 1 has two equally good actions."""
    targets = jnp.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    outputs = jnp.log(jnp.array([[0.5, 0.25, 0.25], [0.6, 0.2, 0.2], [0.2, 0.3, 0.5], [0, 1, 1]]))
    weights = jnp.array([1.0, 1.0, 1.0, 0.0])
    found = ExpertActions().measures(outputs.clip(-9), targets, weights)
    expected = {
        "loss": -np.log([0.5, 0.2, 0.5]).mean(),
        "accuracy": 2 / 3,
        "all_correct": 0.0,
        "optimal": 1.0,
        "first_correct": 1.0,
        "last_correct": 1.0,
    }
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(value, rel=1e-5), name
    np.testing.assert_array_equal(ExpertActions().describe(targets, 3), np.eye(3)[[0, 1, 2, 0]])


def test_the_best_constant_by_hand():
    """Two episodes of two steps: the second one has a single row, which counts as much as two."""
    query = Examples(
        jnp.zeros((1, 4, 1)),
        jnp.array([[[0.0, 1.0], [4.0, 1.0], [2.0, 3.0], [99.0, 99.0]]]),
        jnp.array([[1.0, 1.0, 1.0, 0.0]]),
    )
    # Means 2 and 2; half of (4/4 + 4/4 + 0) and of 1.
    assert float(constant_loss(query, 2)) == pytest.approx(0.5 * (2.0 + 1.0))


class Giver(eqx.Module):
    """A model that does not adapt and always prefers one action."""

    favourite: jax.Array

    def start(self, inputs, targets, weights, *, key):
        return {"nothing": jnp.zeros(1)}

    def read(self, inputs):
        return inputs

    def predict(self, task, features):
        preferred = self.favourite + 0 * task["nothing"][0]
        return jnp.broadcast_to(preferred[None], (len(features), preferred.shape[0]))


def test_an_agent_that_gives_up_earns_nothing():
    row = ROWS["modular/preference/compositional/linear-hnet"]
    learner = make_preference_learner(row.tiny.config, 1)
    assert isinstance(learner, GridLearner)

    @jax.jit
    def start_and_play(key):
        state = learner.init(key)._replace(model=Giver(jnp.eye(5)[preference_grid.NOTHING]))
        return learner._play(state, ("test", "ood"), 8)

    tasks, _, ours, experts = start_and_play(jr.key(0))
    assert tasks.support.inputs.shape[:2] == ours.rewards.shape[:2] == (2, 8)
    assert not ours.rewards.any()
    assert (ours.counts.sum(axis=-1) == 1).all()
    assert float(experts.rewards.sum()) > 0
    np.testing.assert_array_equal(ours.states.cell[..., 0], experts.states.cell[..., 0])


@pytest.mark.parametrize("terminal_nothing", [False, True])
def test_who_knows_only_mean_values_gives_up_at_once(terminal_nothing):
    """Waiting is backed up as 0.9 of the best that follows, whichever way that is.

    So an agent that does not know the way yet prefers it, and returns near 0 are no error.
    """
    source = preference_grid.make_preference_grid(
        num_modules=6, num_types=6, terminal_nothing=terminal_nothing
    )

    @jax.jit
    def demonstrations(key):
        world_key, task_key = jr.split(key)
        return source.sample(source.begin(world_key), task_key, 32).query

    for seed in range(3):
        shown = demonstrations(jr.key(seed))
        means = jnp.average(shown.targets, axis=(0, 1), weights=shown.weights)
        assert (int(jnp.argmax(means)) == preference_grid.NOTHING) is not terminal_nothing


FACTS = {  # of tiny variants: trained and unseen combinations, rank, and whether it is connected
    "modular/preference/compositional/linear-hnet": (11, 3, 4, 1),
    "modular/preference/noncompositional/anil": (7, 7, 3, 1),
    "modular/preference/connected/linear-hnet": (18, 3, 6, 1),
    "modular/preference/disconnected/deep-hnet": (12, 3, 6, 0),
    "modular/goals/compositional/maml": (150, 50),
    "modular/goals/noncompositional/anil": (150, 50),
}


@pytest.mark.parametrize("row_id", FACTS)
def test_a_row_says_what_there_was_to_learn_from(row_id):
    row = ROWS[row_id]
    learner = row.make_learner(row.tiny.config, 1)

    @jax.jit
    def describe(key):
        state = learner.init(key)
        return learner._facts(state), state.model

    found, model = describe(jr.key(0))
    names = ["trained_combinations", "unseen_combinations", "support_rank", "support_connected"]
    expected = dict(zip(names, FACTS[row_id], strict=False))
    parameters = sum(leaf.size for leaf in jax.tree.leaves(model))
    assert {name: int(value) for name, value in found.items()} == {
        **expected,
        "parameters": parameters,
    }


# Runs and pictures.


@pytest.mark.parametrize(
    "row_id",
    [
        "modular/preference/compositional/linear-hnet",
        "modular/goals/noncompositional/anil",
    ],
)
@pytest.mark.slow  # compiling takes half a minute each
def test_a_tiny_run_measures_and_draws_what_its_row_promises(row_id, tmp_path):
    row = ROWS[row_id]
    record = run_row(RunRequest.of(row, "tiny"), tmp_path, progress=False)
    assert record.is_done
    for metric in (row.metric, *row.also):
        values = record.values(metric.name)  # of two tasks an expert may earn nothing
        assert np.isfinite(values).all() or metric.name == "ood_return", metric.name
    facts = FACTS[row_id]
    assert record.values("trained_combinations").tolist() == [facts[0]]
    assert record.values("unseen_combinations").tolist() == [facts[1]]
    assert (record.values("parameters") > 0).all()
    measure, sign = ("loss", 1) if "preference" in row_id else ("accuracy", -1)
    lost = record.values(f"ood_{measure}") - record.values(f"test_{measure}")
    np.testing.assert_allclose(record.values("gap"), sign * lost, rtol=1e-5, atol=1e-7)
    if "preference" in row_id:
        assert record.values("support_rank").tolist() == [facts[2]]
        assert record.values("support_connected").tolist() == [facts[3]]
        constant = record.values("ood_constant_loss")
        ratio = record.values("ood_loss") / constant
        np.testing.assert_allclose(record.values("ood_relative"), ratio, rtol=1e-5)
        assert np.isfinite(record.values("ood_many_loss")).all()
    [(folder, _)] = read_records(tmp_path)
    inspected = folder.read_inspect()
    for picture in row.pictures:
        assert set(picture.needs) <= set(inspected), picture.title
        figure = Figure()
        picture.draw(figure.add_subplot(), inspected)
        assert any(axes.has_data() for axes in figure.axes)


@pytest.mark.parametrize(
    "row_id", ["modular/preference/connected/linear-hnet", "modular/goals/compositional/anil"]
)
def test_a_row_shows_its_task_before_any_run(row_id):
    row = ROWS[row_id]
    sample = row.sample
    assert sample is not None
    shown = sample.make(row.tiny.config)
    assert [picture.title for picture in sample.pictures] == (
        ["an episode of an unseen task", "the support as a graph"]
        if "preference" in row_id
        else ["an episode of an unseen task"]
    )
    for picture in sample.pictures:
        assert set(picture.needs) <= set(shown)
        figure = Figure()
        picture.draw(figure.add_subplot(), shown)
        assert any(axes.has_data() for axes in figure.axes)


def test_a_film_strip_shows_first_and_last_step_and_what_is_done():
    film = {
        "walls": np.zeros((3, 3), bool),
        "objects": np.array([[0, 2]]),
        "types": np.array([1]),
        "worth": np.array([1.0]),
        "goal": np.array([-1, -1]),
        "there": np.ones((20, 1), bool),
        "agent": np.zeros((20, 2), int),
        "actions": np.array([1] * 11 + [4] + [0] * 8),
        "counts": np.arange(20) < 12,
    }
    arrays = {f"expert_{name}": array for name, array in film.items()}
    figure = Figure()
    _grid_pictures.draw_film(figure.add_subplot(), arrays, actions=_grid_pictures.GOAL_ACTIONS)
    panels = figure.axes[1:]
    assert len(panels) == 8
    labels = [panel.get_xlabel() for panel in panels]
    assert labels[0] == "1: →"
    assert labels[-1] == "12: ●"


def test_pictures_have_a_sign_for_every_action():
    assert len(_grid_pictures.PREFERENCE_ACTIONS) == len(preference_grid.ACTIONS)
    assert len(_grid_pictures.GOAL_ACTIONS) == len(goal_grid.ACTIONS)


@pytest.mark.parametrize("changes", [{"support": "dense"}, {"held_out": 1.0}, {"learner": "sgd"}])
def test_bad_settings_are_refused(changes):
    for config in (PREFERENCE_PUBLISHED["anil"], GOALS_PUBLISHED["anil"]):
        with pytest.raises(ValueError, match=next(iter(changes))):
            dataclasses.replace(config, **changes)
