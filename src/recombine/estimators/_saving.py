"""Fitted estimators in one file: a zip of JSON and `.npy` arrays, nothing that can run code.

    estimator.json     format, class, package version, parameters, fitted attributes
    arrays/<n>.npy     what the JSON refers to as {"array": n}

JSON keeps null, booleans, whole numbers, finite floats, strings and lists as they are. Everything
else is an object with one key that says what it is.
"""

import io
import json
import math
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

import recombine
from recombine.results import write_atomically

if TYPE_CHECKING:
    from recombine.estimators._base import Estimator

FORMAT = 1
"""Raised when an older reader would misunderstand the file."""

KIND = "recombine estimator"
DESCRIPTION = "estimator.json"
MODEL = "model_"


class EstimatorFileError(ValueError):
    """A file that is not an estimator this version can read; names the file."""


class Stored(NamedTuple):
    """What a file holds."""

    class_name: str
    version: str  # of the package that wrote it
    params: dict[str, Any]
    fitted: dict[str, Any]
    model: list[np.ndarray]


def write_estimator(path: Path, estimator: "Estimator") -> None:
    """Writes parameters, fitted attributes and model, atomically."""
    encoder = _Encoder()
    fitted = {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_") and name != MODEL
    }
    data = {
        "kind": KIND,
        "format": FORMAT,
        "class": type(estimator).__name__,
        "version": recombine.__version__,
        "params": encoder.named(estimator.get_params(deep=False)),
        "fitted": encoder.named(fitted),
        "model": [encoder.value(np.asarray(leaf), MODEL) for leaf in _leaves(estimator)],
    }
    packed = _pack(json.dumps(data, indent=1, allow_nan=False), encoder.arrays)
    try:
        write_atomically(path, lambda file: file.write(packed))
    except OSError as error:
        raise OSError(
            error.errno,
            f"the estimator was not saved, and an older file is unchanged ({error.strerror})",
            str(path),
        ) from error


def read_estimator(path: Path) -> Stored:
    """Reads what `write_estimator` wrote, and raises `EstimatorFileError` for anything else."""
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _read(path, archive)
        except EstimatorFileError:
            raise
        except Exception as error:  # zipfile, zlib, NumPy and the JSON tree each have their own
            raise EstimatorFileError(
                f"{path} is cut off, damaged, or no estimator at all "
                f"({type(error).__name__}: {error}). Save it again."
            ) from error


def describe(leaf: Any) -> str:
    """Returns dtype and shape of an array, such as `float32[3, 2]`."""
    return f"{leaf.dtype}{list(leaf.shape)}"


class _Encoder:
    """Turns values into JSON, and collects the arrays that they refer to."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []

    def named(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: self.value(value, name) for name, value in values.items()}

    def value(self, value: Any, name: str) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.value(value.get_state(legacy=True), name)}
        if isinstance(value, np.ndarray) and value.dtype == object:
            elements = [self.value(element, name) for element in value.ravel()]
            return {"objects": elements, "shape": list(value.shape)}
        if isinstance(value, np.ndarray | np.generic):
            self.arrays.append(np.asarray(value))
            kind = "array" if isinstance(value, np.ndarray) else "scalar"
            return {kind: len(self.arrays) - 1}
        if type(value) is list:
            return [self.value(element, name) for element in value]
        if type(value) is tuple:
            return {"tuple": [self.value(element, name) for element in value]}
        if type(value) is dict:
            pairs = [[self.value(k, name), self.value(v, name)] for k, v in value.items()]
            return {"dict": pairs}
        raise TypeError(
            f"`{name}` holds a {type(value).__name__}, which cannot be saved; numbers, strings, "
            f"arrays, and lists, tuples and dicts of them can"
        )


class _Decoder:
    """Undoes `_Encoder`."""

    def __init__(self, archive: zipfile.ZipFile):
        self._archive = archive

    def named(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: self.value(value) for name, value in values.items()}

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.value(element) for element in value]
        if not isinstance(value, dict):
            return value
        match value:
            case {"float": text}:
                return float(text)
            case {"random_state": state}:
                random_state = np.random.RandomState()
                random_state.set_state(self.value(state))
                return random_state
            case {"objects": elements, "shape": shape}:
                flat = np.empty(len(elements), dtype=object)
                flat[:] = [self.value(element) for element in elements]
                return flat.reshape(shape)
            case {"array": number}:
                return self._array(number)
            case {"scalar": number}:
                return self._array(number)[()]
            case {"tuple": elements}:
                return tuple(self.value(element) for element in elements)
            case {"dict": pairs}:
                return {self.value(k): self.value(v) for k, v in pairs}
        raise ValueError(f"{sorted(value)} is no kind of value")

    def _array(self, number: int) -> np.ndarray:
        packed = io.BytesIO(self._archive.read(_member(number)))
        return np.lib.format.read_array(packed, allow_pickle=False)


def _leaves(estimator: "Estimator") -> list[Any]:
    return jax.tree.leaves(estimator.model_)


def _member(number: int) -> str:
    return f"arrays/{int(number)}.npy"


def _pack(description: str, arrays: list[np.ndarray]) -> bytes:
    members = {DESCRIPTION: description.encode()}
    for number, array in enumerate(arrays):
        packed = io.BytesIO()
        np.lib.format.write_array(packed, array, allow_pickle=False)
        members[_member(number)] = packed.getvalue()
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            # Without a date, equal estimators give equal files.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return whole.getvalue()


def _read(path: Path, archive: zipfile.ZipFile) -> Stored:
    data = _read_description(path, archive)
    decoder = _Decoder(archive)
    return Stored(
        class_name=str(data["class"]),
        version=str(data["version"]),
        params=decoder.named(data["params"]),
        fitted=decoder.named(data["fitted"]),
        model=[decoder.value(leaf) for leaf in data["model"]],
    )


def _read_description(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    if DESCRIPTION not in archive.namelist():
        raise EstimatorFileError(f"{path} is a zip file, but not an estimator saved by recombine")
    data = json.loads(archive.read(DESCRIPTION))
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise EstimatorFileError(f"{path} is a zip file, but not an estimator saved by recombine")
    if data.get("format") != FORMAT:
        raise EstimatorFileError(
            f"{path} has format {data.get('format')!r} (written by recombine "
            f"{data.get('version')}), this version ({recombine.__version__}) reads {FORMAT}. "
            f"Upgrade recombine."
        )
    return data
