import pytest

from recombine.tasks.scan import Example, all_examples, fingerprint, load_examples, save_examples


def test_files_come_back_as_they_were_written(tmp_path):
    examples = all_examples()[:200]
    save_examples(tmp_path / "tasks.txt", examples)
    assert load_examples(tmp_path / "tasks.txt") == examples
    text = (tmp_path / "tasks.txt").read_bytes()
    assert text.startswith(b"IN: walk OUT: I_WALK\nIN: walk twice OUT: I_WALK I_WALK\n")
    assert text.endswith(b"\n")
    assert not text.endswith(b"\n\n")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("walk OUT: I_WALK", "starts with 'IN: '"),
        ("IN: walk I_WALK", "found it 0 times"),
        ("IN: walk OUT: I_WALK OUT: I_WALK", "found it 2 times"),
        ("IN: walk  twice OUT: I_WALK I_WALK", "single spaces"),
        ("IN: walk OUT: I_WALK ", "single spaces"),
        ("", "starts with 'IN: '"),
        ("IN: walk OUT: I_WALK\r", "LF alone"),
        ("IN: wälk OUT: I_WALK", "ASCII"),
    ],
)
def test_errors_name_file_and_line(tmp_path, line, complaint):
    path = tmp_path / "broken.txt"
    path.write_bytes(f"IN: run OUT: I_RUN\n{line}\nIN: run OUT: I_RUN\n".encode())
    with pytest.raises(ValueError, match=complaint) as error:
        load_examples(path)
    assert str(error.value).startswith(f"{path}:2: ")


def test_fingerprints_ignore_order_and_may_count_copies():
    walk, run = Example(("walk",), ("I_WALK",)), Example(("run",), ("I_RUN",))
    assert fingerprint([walk, run, run]) == fingerprint([run, walk])
    assert fingerprint([walk, run, run], unique=False) != fingerprint([run, walk], unique=False)
