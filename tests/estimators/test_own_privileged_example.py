import numpy as np
import pytest

from scripts import load_script


@pytest.fixture(scope="module")
def example():
    return load_script("examples/own_privileged.py")


def test_the_stay_tells_what_the_admission_hides(example):
    hospital = example.Hospital(np.random.default_rng(0))
    patients = hospital.admit(5000)
    doses, reactions = patients.stay[..., :2], patients.stay[..., 2:]
    sensitivity = (doses * reactions).mean(axis=1)
    is_complicated = patients.outcome == "complication"
    assert ((sensitivity.prod(axis=1) > 0) == is_complicated).mean() > 0.9
    # A single reaction cannot be predicted from the admission, not even by those who know how.
    known = patients.admission @ hospital.weights
    assert abs(np.corrcoef(known[:, 0], reactions[:, 0, 0])[0, 1]) < 0.05
    assert abs(np.corrcoef(known[:, 0], sensitivity[:, 0])[0, 1]) > 0.99


@pytest.mark.slow
def test_the_example_shows_the_teacher_ahead(example):
    scores = example.score_methods(0)
    assert scores["with a teacher"] > scores["without"] + 0.05
    assert scores["with a teacher"] > scores["auxiliary task"] + 0.05
