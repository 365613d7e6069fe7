"""CIFAR-10 is read from every form it comes in, or refused with a reason."""

import gzip
import hashlib
import io
import struct
import tarfile
import zipfile

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from PIL import Image

from recombine.tasks import cifar10

BINARY, PYTHON = "cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("RECOMBINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOMBINE_DATA", raising=False)


def make_images(number, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (number, 32, 32, 3), dtype=np.uint8)


def planes(images):
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def make_tar(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def declare_official(monkeypatch, path):
    data = path.read_bytes()
    known = cifar10.OfficialArchive(len(data), hashlib.md5(data).hexdigest())
    monkeypatch.setitem(cifar10.OFFICIAL_ARCHIVES, path.name, known)
    return path


def batches(number=2):
    """Five training batches and a test batch, each with its images and labels."""
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    return {
        name: (make_images(number, seed), [(seed + i) % 10 for i in range(number)])
        for seed, name in enumerate(names)
    }


def binary_archive(folder, monkeypatch):
    files = {"cifar-10-batches-bin/readme.html": b"hello"}
    for name, (images, labels) in batches().items():
        records = np.concatenate([np.array(labels, np.uint8)[:, None], planes(images)], axis=1)
        files[f"cifar-10-batches-bin/{name}.bin"] = records.tobytes()
    return declare_official(monkeypatch, make_tar(folder / BINARY, files))


def python2_string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return (
        b"U" + bytes([len(data)]) if len(data) < 256 else b"T" + struct.pack("<i", len(data))
    ) + data


def python2_pickle(images, labels, function=b"numpy.core.multiarray\n_reconstruct\n"):
    """What Python 2 wrote for a dictionary of labels and an array, instruction by instruction."""
    number = len(images)
    dtype = (
        b"cnumpy\ndtype\nq\x08" + python2_string("u1") + b"K\x00K\x01\x87Rq\x09"
        b"(K\x03" + python2_string("|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    array = (
        b"c" + function + b"q\x05cnumpy\nndarray\nq\x06K\x00\x85" + python2_string("b") + b"\x87R"
        b"q\x07(K\x01M"
        + struct.pack("<H", number)
        + b"M\x00\x0c\x86"
        + dtype
        + b"\x89"
        + python2_string(planes(images).tobytes())
        + b"tb"
    )
    listed = b"".join(b"K" + bytes([label]) for label in labels)
    return (
        b"\x80\x02}q\x01("
        + python2_string("batch_label")
        + python2_string("training batch")
        + python2_string("labels")
        + b"]q\x02("
        + listed
        + b"e"
        + python2_string("data")
        + array
        + python2_string("filenames")
        + b"]q\x0a("
        + python2_string("a.png") * number
        + b"eu."
    )


def python_archive(folder, monkeypatch, **changes):
    files = {
        f"cifar-10-batches-py/{name}": python2_pickle(*batch, **changes)
        for name, batch in batches().items()
    }
    files["cifar-10-batches-py/batches.meta"] = b"never looked at"
    return declare_official(monkeypatch, make_tar(folder / PYTHON, files))


def encoded(image, kind="PNG"):
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind)
    return file.getvalue()


def class_files(top="", number=2):
    files = {}
    for part in ("train", "test"):
        for label, name in enumerate(cifar10.CLASSES):
            for index, image in enumerate(make_images(number, seed=label + 10 * (part == "test"))):
                files[f"{top}{part}/{name}/{index:04}.png"] = encoded(image)
    return files


def write_folder(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def check_batches(data):
    expected = batches()
    test_images, test_labels = expected.pop("test_batch")
    np.testing.assert_array_equal(data.test.images, test_images)
    assert data.test.labels.tolist() == test_labels
    images, labels = zip(*expected.values(), strict=True)
    np.testing.assert_array_equal(data.train.images, np.concatenate(images))
    assert data.train.labels.tolist() == np.concatenate(labels).tolist()


def check_classes(data):
    assert data.train.labels.tolist() == [label for label in range(10) for _ in range(2)]
    for label in range(10):
        np.testing.assert_array_equal(data.train.images[2 * label :][:2], make_images(2, label))
        np.testing.assert_array_equal(data.test.images[2 * label :][:2], make_images(2, label + 10))


def test_the_binary_archive(monkeypatch, tmp_path):
    check_batches(cifar10.load(binary_archive(tmp_path, monkeypatch)))


def test_the_python_archive_is_read_without_unpickling(monkeypatch, tmp_path):
    check_batches(cifar10.load(python_archive(tmp_path, monkeypatch)))


def test_a_pickle_that_calls_something_else_is_refused(monkeypatch, tmp_path):
    path = python_archive(tmp_path, monkeypatch, function=b"os\nsystem\n")
    with pytest.raises(ValueError, match="data_batch_1: `data` must be a NumPy array"):
        cifar10.load(path)


def test_a_pickle_with_an_unknown_instruction_is_refused(monkeypatch, tmp_path):
    files = {
        f"cifar-10-batches-py/{name}": b"\x80\x02(S'echo'\nios\nsystem\n." for name in batches()
    }
    path = declare_official(monkeypatch, make_tar(tmp_path / PYTHON, files))
    with pytest.raises(ValueError, match="not a batch of CIFAR-10: it has the instruction"):
        cifar10.load(path)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:40], lambda data: b"", lambda data: data[:-1] + b"e."]
)
def test_a_damaged_pickle_is_an_error_and_no_crash(damage, monkeypatch, tmp_path):
    batch = damage(python2_pickle(make_images(1), [3]))
    files = {f"cifar-10-batches-py/{name}": batch for name in batches()}
    path = declare_official(monkeypatch, make_tar(tmp_path / PYTHON, files))
    with pytest.raises(ValueError, match="not a batch of CIFAR-10"):
        cifar10.load(path)


def test_an_official_archive_is_verified_before_it_is_opened(monkeypatch, tmp_path):
    path = binary_archive(tmp_path, monkeypatch)
    data = path.read_bytes()
    monkeypatch.setattr(tarfile, "open", lambda *_: pytest.fail("it was opened"))
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"MD5 checksum .* not unpacked"):
        cifar10.load(path)
    path.write_bytes(data[:-1])
    with pytest.raises(ValueError, match=r"bytes where the official archive has .* incomplete"):
        cifar10.load(path)


def test_the_published_checksums():
    assert {name: known.md5 for name, known in cifar10.OFFICIAL_ARCHIVES.items()} == {
        BINARY: "c32a1d4ab5d03f1284b67883e8d87530",
        PYTHON: "c58f30108f718f92721af3b95e74349a",
    }


def test_records_of_a_wrong_size_and_missing_batches(monkeypatch, tmp_path):
    wrong = {f"cifar-10-batches-bin/{name}.bin": b"x" * 3000 for name in batches()}
    path = declare_official(monkeypatch, make_tar(tmp_path / BINARY, wrong))
    with pytest.raises(ValueError, match=r"records of 3,073 bytes.* got 3,000"):
        cifar10.load(path)
    path = declare_official(monkeypatch, make_tar(tmp_path / BINARY, {"x": b""}))
    with pytest.raises(ValueError, match=r"lacks cifar-10-batches-bin/data_batch_1\.bin"):
        cifar10.load(path)


def test_a_folder_of_class_folders(tmp_path):
    check_classes(cifar10.load(write_folder(tmp_path / "mine", class_files())))


@pytest.mark.parametrize(("ending", "mode"), [("tar", "w"), ("tar.gz", "w:gz"), ("tar.xz", "w:xz")])
def test_a_tar_archive_of_class_folders(ending, mode, tmp_path):
    files = class_files(top="cifar10/") | {"cifar10/overview.png": b"not one of them"}
    check_classes(cifar10.load(make_tar(tmp_path / f"mine.{ending}", files, mode)))


def test_a_zip_archive_of_class_folders(tmp_path):
    with zipfile.ZipFile(tmp_path / "mine.zip", "w") as archive:
        for name, data in class_files().items():
            archive.writestr(name, data)
    check_classes(cifar10.load(tmp_path / "mine.zip"))


def test_jpeg_images_are_read_too(tmp_path):
    files = {
        name.replace(".png", ".jpg"): encoded(np.full((32, 32, 3), 200, np.uint8), "JPEG")
        for name in class_files()
    }
    data = cifar10.load(write_folder(tmp_path / "mine", files))
    np.testing.assert_allclose(data.train.images, 200, atol=2)


def test_names_that_lead_out_of_an_archive_are_refused(tmp_path):
    for name in ("../train/cat/0.png", "/train/cat/0.png", "x/../../train/cat/0.png"):
        path = make_tar(tmp_path / "mine.tar", {name: encoded(make_images(1)[0])}, "w")
        with pytest.raises(ValueError, match="leads out of the archive"):
            cifar10.load(path)


def test_links_in_an_archive_are_refused(tmp_path):
    with tarfile.open(tmp_path / "mine.tar", "w") as archive:
        link = tarfile.TarInfo("train/cat/0.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    with pytest.raises(ValueError, match="is a link"):
        cifar10.load(tmp_path / "mine.tar")


def test_a_missing_class_an_unknown_one_and_a_missing_part(tmp_path):
    files = class_files()
    lacking = {name: data for name, data in files.items() if "train/cat" not in name}
    with pytest.raises(ValueError, match=r"all ten classes; there are none for cat\."):
        cifar10.load(make_tar(tmp_path / "a.tar", lacking, "w"))
    unknown = files | {"train/kitten/0.png": encoded(make_images(1)[0])}
    with pytest.raises(ValueError, match="train/kitten is no class"):
        cifar10.load(make_tar(tmp_path / "b.tar", unknown, "w"))
    half = {name: data for name, data in files.items() if name.startswith("train")}
    with pytest.raises(ValueError, match="test/<class>/"):
        cifar10.load(make_tar(tmp_path / "c.tar", half, "w"))


def test_images_of_another_size_or_none_at_all(tmp_path):
    large = class_files() | {"train/cat/0000.png": encoded(np.zeros((64, 32, 3), np.uint8))}
    with pytest.raises(ValueError, match=r"0000\.png must be 32 x 32 pixels; got 32 x 64"):
        cifar10.load(make_tar(tmp_path / "a.tar", large, "w"))
    text = class_files() | {"train/cat/0000.png": b"text"}
    with pytest.raises(ValueError, match="not a whole PNG or JPEG"):
        cifar10.load(make_tar(tmp_path / "b.tar", text, "w"))
    huge = class_files() | {"train/cat/0000.png": bytes(2**20 + 1)}
    with pytest.raises(ValueError, match="too many for a 32 x 32 image"):
        cifar10.load(make_tar(tmp_path / "c.tar", huge, "w"))


@pytest.mark.parametrize("ending", ["tar.gz", "tar.xz", "zip", "tar"])
def test_an_archive_that_is_cut_short(ending, tmp_path):
    path = tmp_path / f"mine.{ending}"
    if ending == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("train/cat/0.png", b"x")
    else:
        make_tar(path, class_files(), {"tar": "w"}.get(ending, f"w:{ending[4:]}"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"cannot be read to its end|none for"):
        cifar10.load(path)


def test_missing_data_says_where_to_get_it_and_where_to_put_it(monkeypatch, tmp_path):
    with pytest.raises(cifar10.DataMissingError) as caught:
        cifar10.load()
    message = str(caught.value)
    assert "https://www.cs.toronto.edu/~kriz/cifar.html" in message
    assert str(tmp_path / "cache" / "data") in message
    assert "RECOMBINE_DATA" in message
    monkeypatch.setenv("RECOMBINE_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(cifar10.DataMissingError, match=r"elsewhere, then .*data"):
        cifar10.load()
    with pytest.raises(cifar10.DataMissingError, match="looked at nowhere"):
        cifar10.load("nowhere")


def test_where_it_is_looked_for(monkeypatch, tmp_path):
    """The argument first, then `$RECOMBINE_DATA`, then the cache folder."""
    in_cache = tmp_path / "cache" / "data"
    in_cache.mkdir(parents=True)
    binary_archive(in_cache, monkeypatch)
    check_batches(cifar10.load())
    write_folder(tmp_path / "mine" / "cifar10", class_files())
    monkeypatch.setenv("RECOMBINE_DATA", str(tmp_path / "mine"))
    check_classes(cifar10.load())
    check_batches(cifar10.load(in_cache))
    monkeypatch.setenv("RECOMBINE_DATA", str(tmp_path / "mine" / "cifar10"))
    check_classes(cifar10.load())


def test_arrays_are_kept_and_read_from_there(monkeypatch, tmp_path):
    path = make_tar(tmp_path / "mine.tar", class_files(), "w")
    cifar10.load(path)
    monkeypatch.setattr(tarfile, "open", lambda *_: pytest.fail("it was read again"))
    check_classes(cifar10.load(path))
    assert not list((tmp_path / "cache" / "cifar10").glob("*.part"))


def test_what_is_kept_is_never_out_of_date(tmp_path):
    folder = write_folder(tmp_path / "mine", class_files())
    cifar10.load(folder)
    (folder / "train/cat/0000.png").write_bytes(encoded(np.zeros((32, 32, 3), np.uint8)))
    assert cifar10.load(folder).train.images[6].max() == 0
    path = make_tar(tmp_path / "mine.tar", class_files(), "w")
    cifar10.load(path)
    make_tar(path, class_files(number=3), "w")
    assert len(cifar10.load(path).train.labels) == 30


def test_a_damaged_file_in_the_cache_is_written_anew(tmp_path):
    path = make_tar(tmp_path / "mine.tar", class_files(), "w")
    cifar10.load(path)
    [kept] = (tmp_path / "cache" / "cifar10").iterdir()
    whole = kept.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2]):
        kept.write_bytes(damaged)
        check_classes(cifar10.load(path))
        assert kept.stat().st_size == len(whole)


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path):
    path = make_tar(tmp_path / "mine.tar", class_files(), "w")
    (tmp_path / "cache").write_text("in the way")
    with pytest.warns(UserWarning, match="not kept"):
        check_classes(cifar10.load(path))


def test_all_labels_drawn_anew_are_right_by_chance():
    true = jnp.arange(50_000) % 10
    labels, changed = cifar10.corrupt_labels(jr.key(0), true, 1.0)
    assert abs(float(changed.mean()) - 0.9) < 0.005  # five standard errors are 0.0067
    assert jnp.array_equal(changed, labels != true)
    counts = np.bincount(labels, minlength=10)
    assert len(counts) == 10
    assert np.abs(counts - 5000).max() < 350  # five standard errors


def test_a_quarter_drawn_anew_leaves_the_others_alone():
    true = jnp.arange(50_000) % 10
    labels, changed = cifar10.corrupt_labels(jr.key(1), true, 0.25)
    assert abs(int(changed.sum()) - 11_250) < 170  # 12,500 drawn; five standard errors
    assert jnp.array_equal(labels[~changed], true[~changed])
    assert labels.dtype == true.dtype


def test_exactly_the_share_is_drawn():
    """With a label that the draw cannot repeat, all that was drawn shows as changed."""
    never = jnp.full(1000, 99)
    for fraction, number in ((0.0, 0), (0.25, 250), (0.333, 333), (1.0, 1000)):
        assert int(cifar10.corrupt_labels(jr.key(2), never, fraction).changed.sum()) == number


def test_corruption_depends_on_the_key_alone():
    true = jnp.arange(1000) % 10
    first, again, other = (
        cifar10.corrupt_labels(jr.key(seed), true, 0.5).labels for seed in (0, 0, 1)
    )
    assert jnp.array_equal(first, again)
    assert not jnp.array_equal(first, other)
    with pytest.raises(ValueError, match=r"`fraction`.*\[0, 1\]; got 1.5"):
        cifar10.corrupt_labels(jr.key(0), true, 1.5)


def test_made_up_images_have_the_right_shape_and_are_the_same_every_time():
    data = cifar10.make_up_images(num_train=30, num_test=10)
    assert data.train.images.shape == (30, 32, 32, 3)
    assert data.train.images.dtype == np.uint8
    assert np.bincount(data.train.labels).tolist() == [3] * 10
    again = cifar10.make_up_images(num_train=30, num_test=10)
    np.testing.assert_array_equal(data.train.images, again.train.images)


def test_gzip_that_holds_no_tar(tmp_path):
    (tmp_path / "mine.tar.gz").write_bytes(gzip.compress(b"no archive at all"))
    with pytest.raises(ValueError, match="cannot be read"):
        cifar10.load(tmp_path / "mine.tar.gz")
