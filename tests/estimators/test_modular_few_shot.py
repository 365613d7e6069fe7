import copy
import zipfile
from typing import Any

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

import recombine
from recombine import ModularFewShot
from recombine.estimators import EstimatorFileError, Task
from recombine.estimators._few_shot_tasks import classes_of, parse_tasks
from recombine.methods.adaptation import DivergedError

pytestmark = pytest.mark.usefixtures("quick_compilation")

SHORT: dict[str, Any] = {
    "steps": 12,
    "width": 8,
    "hidden_layers": 1,
    "modules": 4,
    "inner_steps": 3,
    "inner_learning_rate": 0.2,
    "tasks_per_step": 4,
    "max_buckets": 1,
    "random_state": 0,
}


def sample_lines(count=12, seed=0):
    """Tasks of numbers: slopes, with supports and queries of many sizes."""
    rng = np.random.default_rng(seed)
    tasks = []
    for _ in range(count):
        shown, asked = rng.integers(2, 9), rng.integers(1, 6)
        x = rng.normal(size=(shown + asked, 2))
        y = 10 + rng.normal() * x[:, 0]
        tasks.append((x[:shown], y[:shown], x[shown:], y[shown:]))
    return tasks


def sample_sides(count=12, seed=0):
    """Tasks of three classes by the angle of a point, turned by the task; all are shown."""
    rng = np.random.default_rng(seed)
    tasks = []
    for _ in range(count):
        turn, rows = rng.uniform(0, 6), rng.integers(6, 12)
        angles = turn + 2 * np.pi / 3 * (np.arange(2 * rows) % 3) + rng.uniform(0, 2, 2 * rows)
        x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        y = np.array(["left", "right", "up"])[np.arange(2 * rows) % 3]
        tasks.append(Task(x[:rows], y[:rows], x[rows:], y[rows:]))
    return tasks


@pytest.fixture(scope="module")
def lines(quick_compilation):
    return ModularFewShot(predicts="numbers", **SHORT | {"steps": 300}).fit(sample_lines(40))


@pytest.fixture(scope="module")
def sides(quick_compilation):
    return ModularFewShot(**SHORT).fit(sample_sides(), validation=sample_sides(5, seed=1))


def test_a_new_task_is_learned_from_its_support(lines):
    new = sample_lines(20, seed=1)
    assert lines.score(new) > 0.6
    swapped = [(x, y, *new[i - 1][2:]) for i, (x, y, _, _) in enumerate(new)]
    assert lines.score(swapped) < 0.2  # what is shown of another task does not help


def test_what_fit_leaves_behind_for_numbers(lines):
    tasks = sample_lines(40)
    rows = np.concatenate([x for task in tasks for x in (task[0], task[2])])
    numbers = np.concatenate([y for task in tasks for y in (task[1], task[3])])
    assert lines.classes_ is None
    assert lines.n_features_in_ == 2
    np.testing.assert_allclose(lines.mean_, rows.mean(axis=0))
    np.testing.assert_allclose(lines.target_mean_, [numbers.mean()])
    assert lines.embedding_.shape == (40, 2, 4)
    np.testing.assert_allclose(np.mean(lines.embedding_**2, axis=2), 1, rtol=1e-5)
    assert set(lines.history_) == {"step", "squared_error", "loss", "diverged", "skipped"}
    assert 0 < lines.padding_ < 0.5


def test_what_fit_leaves_behind_for_classes(sides):
    assert sides.classes_.tolist() == ["left", "right", "up"]
    assert sides.target_mean_ is None
    names = {"step", "accuracy", "validation_accuracy", "loss", "diverged", "skipped"}
    assert set(sides.history_) == names
    # All training tasks are measured, so that the curve ends with the score.
    assert sides.history_["accuracy"][-1] == pytest.approx(sides.score(sample_sides()), abs=1e-6)


def test_a_predictor_answers_as_the_score_says(lines, sides):
    tasks = sample_lines(20, seed=2)
    answers = [lines.adapt(*task[:2]).predict(task[2]) for task in tasks]
    asked = np.concatenate([task[3] for task in tasks])
    assert lines.score(tasks) == pytest.approx(r2_score(asked, np.concatenate(answers)), rel=1e-4)
    labelled = sample_sides(12, seed=2)
    scores = [sides.adapt(*task[:2]).score(*task[2:]) for task in labelled]
    assert sides.score(labelled) == pytest.approx(np.mean(scores))


def test_embeddings_of_training_tasks_are_those_that_adapting_finds(lines):
    for task, embedding in zip(sample_lines(40)[:3], lines.embedding_, strict=False):
        found = lines.adapt(*task[:2])
        np.testing.assert_allclose(found.embedding_, embedding, rtol=1e-3, atol=1e-5)


def test_probabilities_belong_to_the_classes_of_the_support(sides):
    task = sample_sides(1, seed=3)[0]
    all_three = sides.adapt(*task[:2])
    assert all_three.classes_.tolist() == ["left", "right", "up"]
    probabilities = all_three.predict_proba(task.x_query)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    expected = all_three.classes_[probabilities.argmax(axis=1)]
    assert all_three.predict(task.x_query).tolist() == expected.tolist()
    two = task.y_support != "left"
    of_two = sides.adapt(task.x_support[two], task.y_support[two])
    assert of_two.classes_.tolist() == ["right", "up"]
    assert of_two.predict_proba(task.x_query).shape == (len(task.x_query), 2)
    assert "left" not in of_two.predict(task.x_query)


def test_answers_do_not_depend_on_padding_or_on_what_else_is_asked(lines):
    x, y, asked, _ = sample_lines(1, seed=4)[0]
    predictor = lines.adapt(x, y)
    alone = [predictor.predict(asked[i : i + 1])[0] for i in range(len(asked))]
    np.testing.assert_allclose(predictor.predict(asked), alone, rtol=1e-6)
    # Twenty rows are filled up to 32, two copies of ten to the same; repeated rows weigh the same.
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, 2)), rng.normal(10, 1, size=10)
    once, twice = lines.adapt(x, y), lines.adapt(np.tile(x, (2, 1)), np.tile(y, 2))
    np.testing.assert_allclose(once.predict(x), twice.predict(x), rtol=1e-4)


def test_units_do_not_matter(lines):
    # With powers of two nothing is rounded, and the networks are the same.
    other = [(4 * a, 1024 * b, 4 * c, 1024 * d) for a, b, c, d in sample_lines(40)]
    scaled = clone(lines).fit(other)
    x, y, asked, _ = sample_lines(1, seed=5)[0]
    expected = 1024 * lines.adapt(x, y).predict(asked)
    np.testing.assert_array_equal(scaled.adapt(4 * x, 1024 * y).predict(4 * asked), expected)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "learner", ["maml", pytest.param("anil", marks=SLOW), pytest.param("amortised", marks=SLOW)]
)
def test_other_learners_are_trained_saved_and_loaded(learner, tmp_path):
    settings = SHORT | {"inner_steps": 0 if learner == "amortised" else 3, "steps": 4}
    model = ModularFewShot(learner, **settings).fit(sample_sides(6))
    model.save(tmp_path / "model.recombine")
    loaded: Any = recombine.load(tmp_path / "model.recombine")
    task = sample_sides(1, seed=1)[0]
    before, after = model.adapt(*task[:2]), loaded.adapt(*task[:2])
    np.testing.assert_array_equal(
        before.predict_proba(task.x_query), after.predict_proba(task.x_query)
    )
    assert (model.embedding_ is None) == (learner != "amortised")
    assert ("distance" in model.history_) == (learner == "amortised")  # it is taught
    shape = {"anil": (8 * 3 + 3,), "maml": (2 * 8 + 8 + 8 * 3 + 3,), "amortised": (2, 4)}[learner]
    assert before.embedding_.shape == shape
    if learner == "anil":  # only the head is the task's own
        first, second = (model.adapt(*one[:2]) for one in sample_sides(2, seed=2))
        bodies = [one._network.model.network.body for one in (first, second)]
        assert all(a is b for a, b in zip(*map(jax.tree.leaves, bodies), strict=True))
        assert np.abs(first.embedding_ - second.embedding_).max() > 0


@pytest.mark.parametrize(
    ("learner", "settings"),
    [
        ("anil", {"inner_steps": 2}),
        pytest.param("amortised", {"inner_steps": 0, "taught": False}, marks=SLOW),
        pytest.param("amortised", {"inner_steps": 0}, marks=SLOW),
        pytest.param("maml", {"inner_steps": 2}, marks=SLOW),
    ],
)
def test_other_learners_predict_numbers_too(learner, settings):
    tasks = sample_lines(8)
    model = ModularFewShot(learner, predicts="numbers", **SHORT | settings | {"steps": 8})
    model.fit(tasks)
    assert model.classes_ is None
    assert np.isfinite(model.history_["squared_error"]).all()
    (x, y, asked, known), *_ = tasks
    predictor = model.adapt(x, y)
    answers = predictor.predict(asked)
    assert answers.shape == known.shape
    assert predictor.score(asked, known) == pytest.approx(r2_score(known, answers))
    # Turned over at the mean of all targets: what is shown of a task says how to answer.
    turned = model.adapt(x, 20 - y).predict(asked)
    assert np.abs(turned - answers).max() > 1e-3
    assert 5 < answers.mean() < 15  # numbers of the size of the targets, 10 in the mean


@pytest.mark.parametrize(
    ("settings", "is_taught"),
    [
        ({"learner": "amortised"}, True),
        ({"learner": "amortised", "taught": False}, False),
        ({"learner": "amortised", "inner_steps": 2}, False),
        ({"learner": "amortised", "inner_steps": 2, "taught": True}, True),
        ({}, False),
    ],
)
def test_encoders_that_work_alone_are_taught_by_descent(settings, is_taught):
    found = ModularFewShot(**settings)._settings().distillation()
    assert (found is not None) == is_taught
    if found is not None:
        assert found.descent.num_steps == 10


def test_a_loaded_model_is_the_saved_one(lines, tmp_path):
    lines.save(tmp_path / "model.recombine")
    loaded: Any = recombine.load(tmp_path / "model.recombine")
    assert type(loaded) is ModularFewShot
    assert loaded.get_params() == lines.get_params()
    np.testing.assert_array_equal(loaded.embedding_, lines.embedding_)
    x, y, asked, _ = sample_lines(1, seed=6)[0]
    np.testing.assert_array_equal(
        loaded.adapt(x, y).predict(asked), lines.adapt(x, y).predict(asked)
    )


def test_a_file_with_a_learner_of_another_version_is_refused(lines, tmp_path):
    path = tmp_path / "model.recombine"
    lines.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content.replace(b'"hypernetwork"', b'"supernetwork"'))
    with pytest.raises(EstimatorFileError, match="does not fit this version's ModularFewShot"):
        recombine.load(path)


def test_the_same_seed_gives_the_same_model_and_clones_are_unfitted(lines):
    again = clone(lines)
    with pytest.raises(NotFittedError):
        again.score(sample_lines(1))
    again.fit(sample_lines(40))
    np.testing.assert_array_equal(again.embedding_, lines.embedding_)
    assert clone(lines).set_params(width=5).width == 5


@pytest.mark.slow
def test_tasks_may_be_dicts_and_have_several_outputs():
    tasks = [
        {
            "x_support": a,
            "y_support": np.stack([b, -b], 1),
            "x_query": a,
            "y_query": np.tile(b, (2, 1)).T,
        }
        for a, b, *_ in sample_lines(5)
    ]
    model = ModularFewShot(predicts="numbers", **SHORT).fit(tasks)
    predictor = model.adapt(tasks[0]["x_support"], tasks[0]["y_support"])
    assert predictor.predict(np.zeros((3, 2))).shape == (3, 2)
    with pytest.raises(ValueError, match="3 numbers in a row, but the training tasks had 2"):
        model.adapt(np.zeros((2, 2)), np.zeros((2, 3)))


def with_task(kind, **changes):
    """Tasks of which the third has something the matter with it."""
    tasks = [Task(*task) for task in (sample_lines(4) if kind == "numbers" else sample_sides(4))]
    tasks[2] = tasks[2]._replace(**changes)
    return tasks


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("numbers", {"x_support": np.zeros((0, 2)), "y_support": []}, r"x_support has no rows"),
        ("numbers", {"x_query": [], "y_query": []}, r"x_query has no rows: nothing would be asked"),
        (
            "numbers",
            {"x_query": np.zeros((2, 3)), "y_query": [1, 2]},
            r"x_query has 3 columns",
        ),
        (
            "numbers",
            {"x_support": np.zeros((2, 1)), "y_support": [1, 2]},
            r"`tasks`\[2\], x_support has 1 columns, but `tasks`\[0\], x_support has 2",
        ),
        ("numbers", {"y_support": [1.0]}, r"but `tasks`\[2\], y_support has 1; each row"),
        ("numbers", {"y_query": [[1, 2]], "x_query": [[1, 2]]}, r"y_query has 2 numbers in a row"),
        (
            "numbers",
            {"x_query": [[1, np.nan]], "y_query": [1]},
            r"x_query has a value that is",
        ),
        ("numbers", {"x_query": [1.0, 2.0], "y_query": [1, 2]}, r"must be a table of rows"),
        ("numbers", {"x_query": [["a", 1]], "y_query": [1]}, r"must be an array of numbers"),
        (
            "classes",
            {"y_query": ["down"], "x_query": [[0, 0]]},
            r"`tasks`\[2\] has queries of class 'down', but no row of that class in its support",
        ),
        ("classes", {"y_query": [1], "x_query": [[0, 0]]}, r"has queries of class 1"),
        ("classes", {"y_query": [0.5], "x_query": [[0, 0]]}, r'set `predicts="numbers"`'),
        (
            "classes",
            {"y_query": [None], "x_query": [[0, 0]]},
            r"has labels that are missing",
        ),
    ],
)
def test_bad_tasks_are_refused(kind, changes, message):
    with pytest.raises(ValueError, match=message):
        ModularFewShot(predicts=kind, **SHORT).fit(with_task(kind, **changes))


@pytest.mark.parametrize(
    ("tasks", "error", "message"),
    [
        ([], ValueError, "at least one task"),
        (Task(1, 2, 3, 4), TypeError, "give a list with one element"),
        ([(1, 2, 3)], ValueError, r"`tasks`\[0\] must be the four arrays .* got 3 of them"),
        ([{"x": 1}], ValueError, "exactly the keys x_support, y_support"),
        ([([[1.0]], ["a"], [[2.0]], ["a"])], ValueError, "at least two classes"),
        (
            [([[1.0]], ["a"], [[2.0]], ["a"]), ([[1.0]], [1], [[2.0]], [1])],
            ValueError,
            "all text or all numbers",
        ),
    ],
)
def test_what_is_no_list_of_tasks_is_refused(tasks, error, message):
    with pytest.raises(error, match=message):
        ModularFewShot(**SHORT).fit(tasks)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"learner": "hypernet"}, ValueError, "`learner` must be one of 'hypernetwork', 'anil'"),
        ({"learner": None}, ValueError, "`learner` must be one of"),
        ({"predicts": "number"}, ValueError, "`predicts` must be 'classes' or 'numbers'"),
        ({"inner_learning_rate": 0.0}, ValueError, "`inner_learning_rate` must be above 0"),
        ({"inner_steps": 0}, ValueError, "`inner_steps` must be at least 1"),
        ({"taught": "yes"}, TypeError, "`taught` must be True, False or None; got 'yes'"),
        ({"learner": "anil", "taught": True}, ValueError, "and 'anil' has none; leave it out"),
        ({"modules": 2.5}, TypeError, "`modules` must be made of whole numbers"),
        ({"tasks_per_step": 0}, ValueError, "`tasks_per_step` must be at least 1"),
    ],
)
def test_bad_settings_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        ModularFewShot(**SHORT | settings).fit(sample_sides(3))


def test_bad_supports_of_new_tasks_are_refused(sides):
    with pytest.raises(ValueError, match="`x` has no rows: a task needs rows"):
        sides.adapt(np.zeros((0, 2)), [])
    with pytest.raises(ValueError, match="`x` has 3 columns, but the training tasks had 2"):
        sides.adapt(np.zeros((1, 3)), ["up"])
    with pytest.raises(ValueError, match="the class 'down', which no training task had"):
        sides.adapt(np.zeros((1, 2)), ["down"])
    with pytest.raises(ValueError, match="`x` has 1 columns"):
        sides.adapt(*sample_sides(1)[0][:2]).predict(np.zeros((1, 1)))
    with pytest.raises(ValueError, match="x_support has 3 columns, but the training tasks had 2"):
        sides.score([Task(np.zeros((1, 3)), ["up"], np.zeros((1, 3)), ["up"])])
    with pytest.raises(ValueError, match="too far from the training data"):
        sides.adapt(np.full((1, 2), 1e300), ["up"])


def test_an_inner_learning_rate_that_diverges_is_an_error():
    settings = SHORT | {"steps": 4, "inner_learning_rate": 1e4}
    model = ModularFewShot("maml", **settings)
    with pytest.raises((FloatingPointError, DivergedError), match=r"inner.learning.rate.*10000"):
        model.fit(sample_sides(6))
    with pytest.raises(NotFittedError):
        model.score(sample_sides(1))


def test_a_new_task_on_which_the_inner_loop_diverges_is_an_error(lines):
    fast = copy.deepcopy(lines)
    fast.set_params(inner_learning_rate=1e30)
    with pytest.raises(DivergedError, match="Lower the inner learning rate"):
        fast.adapt(*sample_lines(1)[0][:2])


def test_scoring_tasks_on_which_the_inner_loop_diverges_is_an_error(lines):
    wild = copy.copy(lines).set_params(inner_learning_rate=1e4)
    with pytest.raises(DivergedError, match="learning rate"):
        wild.score(sample_lines(count=3))


def test_a_fit_that_is_stopped_while_it_looks_back_leaves_no_model(lines, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    again = copy.copy(lines)
    monkeypatch.setattr("recombine.estimators._modular_few_shot.answer_queries", stop)
    with pytest.raises(KeyboardInterrupt):
        again.fit(sample_lines())
    with pytest.raises(NotFittedError):
        again.score(sample_lines())


def test_labels_of_pandas_and_numpy_may_be_mixed_but_none_may_be_missing():
    pandas = pytest.importorskip("pandas")
    x, y = np.arange(4.0)[:, None], np.array(["a", "b", "a", "b"])
    parsed = parse_tasks([(x, pandas.Series(y), x, y)], "tasks", "classes")
    assert classes_of(parsed).tolist() == ["a", "b"]
    for missing in (float("nan"), None, pandas.NA):
        labels = ["a", "b", missing, "a"]
        for given in (labels, pandas.Series(labels, dtype="string")):
            with pytest.raises(ValueError, match="y_support has labels that are missing"):
                parse_tasks([(x, given, x, y)], "tasks", "classes")
