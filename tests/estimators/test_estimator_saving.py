import copy
import errno
import io
import json
import pickle
import zipfile
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import recombine
from recombine import InvariantClassifier
from recombine.estimators import EstimatorFileError

pytestmark = pytest.mark.usefixtures("quick_compilation")

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")
SITES = np.repeat(["a", "b", "c"], 20)


@pytest.fixture(scope="module")
def fitted(quick_compilation):
    model = InvariantClassifier(0.8, hidden_sizes=[8], steps=20, random_state=3)
    return model.fit(X, Y, environments=SITES)


@pytest.fixture
def path(fitted, tmp_path):
    fitted.save(tmp_path / "model.recombine")
    return tmp_path / "model.recombine"


def edit(path, **changes):
    """Changes entries of the description inside a saved file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    description = json.loads(members["estimator.json"]) | changes
    members["estimator.json"] = json.dumps(description).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_loaded_model_is_the_saved_one_bit_for_bit(fitted, path):
    loaded: Any = recombine.load(str(path))
    assert type(loaded) is InvariantClassifier
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert vars(loaded).keys() == vars(fitted).keys()
    for name in ("classes_", "environments_", "agreement_levels_", "mean_", "scale_"):
        before, after = getattr(fitted, name), getattr(loaded, name)
        np.testing.assert_array_equal(after, before)
        assert after.dtype == before.dtype
    assert loaded.n_features_in_ == 3
    assert loaded.history_.keys() == fitted.history_.keys()
    for name, curve in fitted.history_.items():
        np.testing.assert_array_equal(loaded.history_[name], curve)


def test_a_loaded_model_can_be_fitted_again(fitted, path):
    again: Any = recombine.load(path)
    again.fit(X, Y, environments=SITES)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))


def test_equal_models_give_equal_files_without_pickles(fitted, path, tmp_path):
    recombine.load(path).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)


def test_names_of_columns_and_odd_settings_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["one", "two", "three"])
    model: Any = InvariantClassifier(hidden_sizes=(8,), random_state=np.random.RandomState(5))
    model.set_params(threshold=np.float64(0.5), steps=np.int64(20))
    labels = pandas.Series(Y, dtype=object)
    model.fit(table, labels, environments=pandas.Series(SITES, dtype="category"))
    model.save(tmp_path / "model")
    loaded: Any = recombine.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == ["one", "two", "three"]
    assert loaded.feature_names_in_.dtype == object
    np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))
    assert loaded.threshold == 0.5
    assert isinstance(loaded.hidden_sizes, tuple)
    assert loaded.random_state.randint(1000) == model.random_state.randint(1000)


def test_plain_training_can_be_saved(tmp_path):
    with pytest.warns(UserWarning, match="no `environments`"):
        model = InvariantClassifier(hidden_sizes=(8,), steps=20).fit(X, Y)
    model.save(tmp_path / "model")
    loaded: Any = recombine.load(tmp_path / "model")
    assert loaded.environments_ is None


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        InvariantClassifier().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_model_whose_settings_were_changed_is_not_saved(fitted, path):
    before = path.read_bytes()
    changed = copy.copy(fitted).set_params(hidden_sizes=(5,))
    with pytest.raises(ValueError, match=r"changed after `fit`.* Set them back, or fit again"):
        changed.save(path)
    assert path.read_bytes() == before


def test_a_class_that_could_not_be_loaded_is_not_saved(fitted, tmp_path):
    class Mine(InvariantClassifier):
        pass

    mine = Mine()
    vars(mine).update(vars(fitted))
    with pytest.raises(TypeError, match="Mine is not one of recombine's own"):
        mine.save(tmp_path / "model")


def test_a_setting_that_cannot_be_saved_is_named(fitted, tmp_path):
    model = pickle.loads(pickle.dumps(fitted))
    model.l2 = 1j
    with pytest.raises(TypeError, match="`l2` holds a complex"):
        model.save(tmp_path / "model")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused_by_name(path, share):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(EstimatorFileError, match=r"model\.recombine is cut off, damaged"):
        recombine.load(path)


def test_a_damaged_byte_never_changes_a_prediction(fitted, path):
    whole = path.read_bytes()
    expected = fitted.predict_proba(X)
    for position in np.random.default_rng(0).choice(len(whole), size=100, replace=False):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            loaded: Any = recombine.load(path)
        except EstimatorFileError:
            continue
        # It was a byte that nobody reads, such as the date of a member.
        np.testing.assert_array_equal(loaded.predict_proba(X), expected)


def test_foreign_files_are_refused_by_name(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a model")
    with pytest.raises(EstimatorFileError, match=r"notes\.txt"):
        recombine.load(text)
    arrays = tmp_path / "arrays.npz"
    np.savez(arrays, a=np.ones(3))
    with pytest.raises(EstimatorFileError, match=r"arrays\.npz is a zip file, but not"):
        recombine.load(arrays)
    with pytest.raises(FileNotFoundError, match=r"nothing"):
        recombine.load(tmp_path / "nothing")


def test_a_newer_format_is_refused_by_name(path):
    edit(path, format=2, version="9.0.0")
    with pytest.raises(
        EstimatorFileError, match=r"model\.recombine has format 2 .*9\.0\.0.*Upgrad"
    ):
        recombine.load(path)


def test_an_unknown_class_is_refused_by_name(path):
    edit(path, **{"class": "InvariantClusterer"})
    message = r"model\.recombine holds a 'InvariantClusterer'.*it knows InvariantClassifier"
    with pytest.raises(EstimatorFileError, match=message):
        recombine.load(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "something else"},
        {"params": {"no_such_setting": 1}},
        {"params": {"hidden_sizes": {"tuple": [9]}}},
        {"fitted": {}},
        {"fitted": {"predict": 1}},
        {"model": []},
        {"params": {"threshold": {"array": 10_000}}},
        {"params": {"threshold": {"code": "print()"}}},
        {"params": None},
    ],
)
def test_contents_that_do_not_fit_are_refused_by_name(path, changes):
    edit(path, **changes)
    with pytest.raises(EstimatorFileError, match=r"model\.recombine"):
        recombine.load(path)


def test_an_array_with_pickled_objects_is_refused(path):
    packed = io.BytesIO()
    np.save(packed, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("arrays/99.npy", packed.getvalue())
    edit(path, model=[{"array": 99}])
    with pytest.raises(EstimatorFileError, match=r"model\.recombine"):
        recombine.load(path)


def test_a_full_disk_leaves_the_old_file(fitted, path, monkeypatch):
    before = path.read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"not saved.*No space left.*model\.recombine"):
        fitted.save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_named(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"not saved.*missing.model"):
        fitted.save(tmp_path / "missing" / "model")
