import numpy as np
import pytest

from recombine.estimators._labels import as_labels, is_missing


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["a", "b"], "U"),
        (("a", "b"), "U"),
        ([1, 2.5], "f"),
        ([True, False], "b"),
        (np.array(["a", "b"], dtype=object), "U"),
        (np.array([1, 2], dtype=object), "i"),
        (["a", 1], "O"),
        (["a", float("nan")], "O"),
        (["a", None], "O"),
    ],
)
def test_labels_of_one_kind_are_plain_and_others_stay_what_they_are(labels, kind):
    found = as_labels(labels)
    assert found.dtype.kind == kind
    assert found.tolist() == list(labels) or any(map(is_missing, labels))


def test_pandas_has_missing_labels_of_its_own():
    pandas = pytest.importorskip("pandas")
    found = as_labels(pandas.Series(["a", "b"], dtype="string").mask([False, True]))
    assert [is_missing(label) for label in found] == [False, True]
    assert as_labels(pandas.Series(["a", "b"])).dtype.kind == "U"
