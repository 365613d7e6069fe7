"""What a row may declare, and what is refused before anything is trained."""

import pytest

from recombine.experiments import (
    Choice,
    LogUniform,
    Metric,
    Search,
    Uniform,
    Whole,
    change_settings,
    find_row,
    match_rows,
)
from recombine.experiments.agreement._config import SearchConfig
from recombine.tuning import StudyError, StudyRequest, setting_text

SEARCHED = [row for row in match_rows("*") if row.search]


@pytest.mark.parametrize("row", SEARCHED, ids=lambda row: row.id)
def test_every_declared_space_fits_its_row(row):
    for name in ("full", *(["quick"] if row.quick else []), "tiny"):
        request = StudyRequest.of(row, name, trials=1, sampler="grid")
        assert request.space
        assert request.variant.steps % request.variant.eval_every == 0


def test_the_spirals_are_searched_inside_the_tables_of_the_thesis():
    table = SearchConfig(method="and-mask")
    search = find_row("ilc/synthetic/and-mask").search
    assert search is not None
    assert search.by_test
    space = search.space
    assert space["hidden_units"] == Choice(table.hidden_units)
    assert space["learning_rate"].grid() == pytest.approx(list(table.learning_rates))
    assert space["l2"].grid() == pytest.approx(list(table.l2))
    assert space["threshold"].grid() == pytest.approx(list(table.thresholds))
    quick = search.of("quick")
    assert set(quick.ranges) == {"learning_rate", "l2", "threshold", "rescale"}
    assert search.of("tiny").changes == ()
    irm = find_row("ilc/synthetic/irm").search
    assert irm is not None
    assert irm.space["learning_rate"].grid()[-1] == pytest.approx(1.0)  # Table B.2 goes further


def test_modular_rows_are_not_chosen_by_unseen_combinations():
    search = find_row("modular/hyperteacher/compositional/linear-hnet").search
    assert search is not None
    assert (search.metric.name, search.by_test) == ("valid_accuracy", False)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(1.0, 1.0), "lower number to a higher one; got 1.0 to 1.0"),
        (lambda: LogUniform(0.0, 1.0), "above 0; got 0.0"),
        (lambda: Uniform(0.0, 1.0, points=1), "at least 2; got 1"),
        (lambda: Whole(1, 8, log=True, step=2), "`step` must be"),
        (lambda: Choice(()), "at least one value"),
        (lambda: Search({}, Metric("a", "a")), "`space` is empty"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_row_without_a_search_space_names_rows_with_one():
    with pytest.raises(StudyError, match="declares no search space; try ilc/synthetic/and-mask"):
        StudyRequest.of(find_row("ilc/synthetic/and-mask-printed"), trials=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trials": 0}, "`trials` must be at least 1; got 0"),
        ({"batch": 0}, "`batch` must be at least 1; got 0"),
        ({"num_seeds": 0}, "at least one seed"),
        ({"sampler": "magic"}, "one of tpe, random, grid; got 'magic'"),
        ({"pruner": "axe"}, "one of none, median, halving; got 'axe'"),
        ({"metric": "eror"}, "knows no metric 'eror' to search by; try error"),
        ({"sampler": "grid"}, "`target` is a continuous range .* without points"),
        ({"changes": ["rate=0.1", "target=1"]}, "nothing is left to search"),
        ({"name": "wrong"}, "does not fit its config: `rate`"),
    ],
)
def test_what_cannot_be_searched_is_refused(make_request, settings, message):
    with pytest.raises(StudyError, match=message):
        make_request(**settings)


def test_a_setting_that_is_fixed_is_not_searched(make_request):
    request = make_request(changes=["target=0.5"])
    assert set(request.space) == {"rate"}
    assert request.variant.config.target == 0.5
    assert request.name != make_request().name


def test_more_trials_and_another_batch_are_the_same_study(make_request):
    one = make_request(trials=4)
    assert one.name == make_request(trials=40, batch=8).name
    assert one.name != make_request(sampler_seed=1).name
    assert one.name != make_request(num_seeds=2).name


def test_test_data_are_recognised(make_request):
    assert not make_request().by_test
    assert make_request(metric="test_error").by_test
    assert not make_request(metric="test_error").is_as_published
    assert make_request("shapes").is_as_published


@pytest.mark.parametrize("value", [0.1, 1e-5, None, True, 3, "tensor", "1", [0.5, 0.75]])
def test_settings_are_written_as_they_are_read(value):
    from recombine.experiments._settings import _parse

    name, _, text = setting_text("x", value).partition("=")
    assert name == "x"
    assert _parse(text) == value


def test_the_command_runs_the_best_setting(make_request):
    request = make_request(variant="quick")
    command = request.command({"rate": 0.25, "target": 0.5})
    assert command.startswith("recombine run toy/walk --quick --set rate=0.25 --set target=0.5")
    assert "--set steps=4" in command
    changes = [word for word in command.split() if "=" in word]
    variant, _ = change_settings(request.row.variant("quick"), changes)
    assert (variant.config.rate, variant.steps) == (0.25, 4)
