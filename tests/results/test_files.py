import errno
import os

import pytest

from recombine.results import write_atomically


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "numbers"
    write_atomically(path, lambda file: file.write(b"old"))
    write_atomically(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["numbers"]


def test_a_full_disk_leaves_the_old_file_and_no_rubbish(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(b"old")

    def write(file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_atomically(path, write)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["numbers"]
