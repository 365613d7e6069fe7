import subprocess
import sys

import pytest

import recombine
import recombine.estimators


def test_importing_the_package_imports_nothing_heavy():
    script = (
        "import sys, recombine; dir(recombine); "
        "print([name for name in ('numpy', 'jax', 'sklearn') if name in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_the_package_offers_the_estimators():
    assert recombine.InvariantClassifier is recombine.estimators.InvariantClassifier
    assert recombine.ModularFewShot is recombine.estimators.ModularFewShot
    assert recombine.SkipForecaster is recombine.estimators.SkipForecaster
    assert recombine.load is recombine.estimators.load
    assert {"InvariantClassifier", "SkipForecaster", "load", "__version__"} <= set(dir(recombine))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'VariantClassifier'"):
        recombine.VariantClassifier  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
