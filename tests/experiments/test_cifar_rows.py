"""The CIFAR-10 rows: their rules, their data, and what happens without the data."""

from dataclasses import replace

import numpy as np
import pytest

from recombine.engines import RunFailedError, RunRequest, run_row
from recombine.experiments.agreement._cifar_config import CifarConfig
from recombine.experiments.agreement._cifar_learners import _subset, make_cifar_learner
from recombine.experiments.agreement._cifar_rows import CIFAR_CLEAN, CIFAR_NOISE, CIFAR_RANDOM
from recombine.experiments.agreement._cifar_variants import THRESHOLDS
from recombine.tasks import cifar10

ROWS = {row.id: row for group in (CIFAR_RANDOM, CIFAR_CLEAN, CIFAR_NOISE) for row in group.rows}
PLAIN = "ilc/cifar-random/tau-0"
MADE_UP = {"images": "made-up", "num_train": 80, "num_test": 10}
TINY = ROWS["ilc/cifar-random/tau-0.2"].tiny.config


def test_every_threshold_of_the_figure_has_a_row_for_either_kind_of_labels():
    for kind, wrong in (("random", 1.0), ("clean", 0.0)):
        for threshold in THRESHOLDS:
            for mode, suffix in (("split", ""), ("group", "-group")):
                config = ROWS[f"ilc/cifar-{kind}/tau-{threshold:g}{suffix}"].full.config
                assert (config.threshold, config.wrong_labels) == (threshold, wrong)
                rate = 2e-4 if (kind, mode) == ("random", "group") else 5e-4
                assert (config.batch_size, config.learning_rate, config.l2) == (80, rate, 1e-6)
                assert config.mode == mode
    rates = {row.id: row.full.config.learning_rate for row in CIFAR_NOISE.rows}
    for suffix in ("", "-group"):
        assert rates[f"ilc/cifar-noise/baseline{suffix}"] == 1e-3
        assert rates[f"ilc/cifar-noise/and-mask{suffix}"] == 5e-3


def test_a_mask_on_random_labels_sees_the_first_epochs_of_the_schedule_of_all_80():
    plain = make_cifar_learner(replace(ROWS[PLAIN].full.config, **MADE_UP), 50_000)
    masked = ROWS["ilc/cifar-random/tau-0.2"].full
    learner = make_cifar_learner(replace(masked.config, **MADE_UP), masked.steps)
    assert plain.decay_steps.tolist() == [25_000, 37_500]
    assert learner.decay_steps.tolist() == [25_000]
    assert masked.steps == 44 * 625


def test_rules_speak_of_rows_that_exist():
    def other(name):
        assert name in ROWS, name

    finals = {
        name: np.array([0.1])
        for name in ("train_accuracy", "test_accuracy", "gap", "wrong_label_accuracy")
    }
    for row in ROWS.values():
        for variant in filter(None, (row.full, row.quick)):
            assert variant.rule.judge(row.metric.name, finals, other).reason
            assert variant.steps % variant.eval_every == 0


def test_a_subset_has_all_classes_alike():
    data = cifar10.make_up_images(num_train=60, num_test=10).train
    chosen = _subset(data, 30)
    assert np.bincount(chosen.labels).tolist() == [3] * 10
    np.testing.assert_array_equal(chosen.images, data.images[:30])
    with pytest.raises(ValueError, match="there are 60 images; got a subset of 61"):
        _subset(data, 61)


def test_without_the_data_the_run_fails_with_the_way_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("RECOMBINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOMBINE_DATA", raising=False)
    row = ROWS["ilc/cifar-clean/tau-0"]
    with pytest.raises(RunFailedError, match=r"not there.*cs\.toronto\.edu.*put it"):
        run_row(RunRequest.of(row, "quick"), tmp_path / "runs", progress=False)


def test_the_learner_follows_its_config():
    learner = make_cifar_learner(replace(TINY, threshold=0.4), 100)
    assert learner.mask is not None
    assert float(learner.mask.threshold) == pytest.approx(0.4)
    assert learner.decay_steps.tolist() == [50, 75]
    assert learner.relabel is make_cifar_learner(TINY, 10).relabel  # compiled only once
    plain = make_cifar_learner(replace(TINY, threshold=0.0, wrong_labels=0.0), 100)
    assert plain.mask is None
    assert plain.relabel is None
    assert learner.network.norm == "batch"
    assert make_cifar_learner(replace(TINY, mode="group"), 100).network.norm == "group"


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("ilc/cifar-noise/and-mask", marks=pytest.mark.slow),
        pytest.param("ilc/cifar-clean/tau-0", marks=pytest.mark.slow),
        pytest.param("ilc/cifar-random/tau-0.2-exact", marks=pytest.mark.slow),
    ],
)
def test_tiny_variants_run_without_any_data(row, tmp_path):
    from matplotlib.figure import Figure

    from recombine.results import read_records

    row = ROWS[row]
    record = run_row(RunRequest.of(row, "tiny"), tmp_path, progress=False)
    assert record.is_done
    for metric in (row.metric, *row.also):
        assert np.isfinite(record.values(metric.name)).all()
    [(folder, _)] = read_records(tmp_path)
    for picture in row.pictures:
        figure = Figure()
        picture.draw(figure.add_subplot(), folder.read_inspect())
        assert figure.axes[0].images


@pytest.mark.parametrize(
    "changes", [{"threshold": 1.5}, {"wrong_labels": -0.1}, {"mode": "loose"}, {"unknown": 1}]
)
def test_bad_settings_are_refused(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        CifarConfig(**changes)
