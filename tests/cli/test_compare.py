"""`recombine compare`."""

import json

import pytest

from made_up import folder_of, make_record
from recombine.cli import main

AND_MASK, PLAIN, IRM = (f"ilc/synthetic/{name}" for name in ("and-mask", "baseline", "irm"))
HIGH, LOW = (0.99, 1.0, 0.98, 1.0, 0.99, 1.0), (0.5, 0.52, 0.51, 0.49, 0.5, 0.48)


def call(capsys, *arguments):
    """Returns exit code, standard output and error output."""
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    output = capsys.readouterr()
    return stopped.value.code or 0, output.out, output.err


def write(runs, row, values, **fields):
    record = make_record(
        row=row,
        final={"test_accuracy": values},
        seeds=tuple(range(len(values))),
        **{"variant": "quick", **fields},
    )
    return folder_of(runs, record).path


@pytest.fixture
def runs(tmp_path):
    write(tmp_path / "runs", AND_MASK, HIGH)
    write(tmp_path / "runs", PLAIN, LOW)
    return tmp_path / "runs"


def test_rows_stand_side_by_side(capsys, runs):
    code, out, err = call(capsys, "compare", AND_MASK, PLAIN, "--runs", str(runs))
    assert (code, err) == (0, "")
    assert "99.33 ± 0.82 %" in out
    assert "−49.33" in out
    assert "6 pairs" in out
    assert "difference: test accuracy less that of ilc/synthetic/and-mask" in out


def test_the_order_is_that_of_the_arguments_and_nothing_comes_twice(capsys, runs):
    folder = next((runs / AND_MASK).iterdir())
    what = [PLAIN, "ilc/synthetic/[ab]*", str(folder)]
    code, out, err = call(capsys, "compare", *what, "--runs", str(runs), "--json")
    assert code == 0
    found = json.loads(out)
    assert [run["id"] for run in found["runs"]] == [PLAIN, AND_MASK]
    assert found["reference"] == PLAIN
    assert found["runs"][1]["difference"]["mean"] == pytest.approx(0.4933, abs=1e-4)
    assert "ilc/synthetic/batchnorm has no finished run" in err, "what is left out is named"


def test_folders_of_runs_can_be_named_whatever_was_changed(capsys, runs, tmp_path):
    other = write(tmp_path / "elsewhere", PLAIN, LOW[:4], changed={"l2": 0.0})
    code, out, _ = call(capsys, "compare", PLAIN, str(other), "--runs", str(runs), "--json")
    assert code == 0
    same, changed = json.loads(out)["runs"]
    assert same["label"] != changed["label"]
    assert changed["changed"] == {"l2": 0.0}
    assert changed["difference"]["pairs"] == 4
    arguments = [PLAIN, str(other), "--reference", str(other), "--runs", str(runs), "--json"]
    assert json.loads(call(capsys, "compare", *arguments)[1])["reference"] == changed["label"]


def test_markdown_and_a_plot(capsys, runs, tmp_path):
    for name in ("plot.png", "plot.svg"):
        plot = tmp_path / name
        what = ["compare", AND_MASK, PLAIN, "--runs", str(runs)]
        code, out, err = call(capsys, *what, "--markdown", "--plot", str(plot))
        assert code == 0
        assert out.startswith("| row | run | test accuracy |")
        assert f"plot: {plot.resolve()}" in err
        assert plot.stat().st_size > 1000


def test_the_variant_can_be_chosen(capsys, runs):
    for row in (AND_MASK, PLAIN):
        write(runs, row, (0.7, 0.8), variant="full")
    arguments = ["compare", AND_MASK, PLAIN, "--runs", str(runs), "--json"]
    assert {run["variant"] for run in json.loads(call(capsys, *arguments)[1])["runs"]} == {"full"}
    out = call(capsys, *arguments, "--variant", "quick")[1]
    assert {run["variant"] for run in json.loads(out)["runs"]} == {"quick"}


def test_the_published_records_can_be_compared(capsys):
    code, out, _ = call(capsys, "compare", AND_MASK, PLAIN, "--evidence", "--json")
    assert code == 0
    ours, plain = json.loads(out)["runs"]
    assert (ours["n"], plain["n"]) == (50, 50)
    assert plain["difference"]["pairs"] == 50
    assert plain["difference"]["high"] < -0.4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([AND_MASK, "ilc/synthetic/basline"], "try ilc/synthetic/baseline"),
        ([AND_MASK], "at least two runs; there is 1 (ilc/synthetic/and-mask)"),
        ([AND_MASK, IRM], "ilc/synthetic/irm has no finished run with unchanged settings in"),
        ([AND_MASK, PLAIN, "--variant", "full"], "no finished full run"),
        ([AND_MASK, PLAIN, "--variant", "huge"], "huge"),
        ([AND_MASK, PLAIN, "--metric", "loss"], "did not measure 'loss'; all have test_accuracy"),
        ([AND_MASK, PLAIN, "--reference", IRM], "is not among the runs compared"),
        ([AND_MASK, PLAIN, "--plot", "plot.pdf"], "must end with .png or .svg"),
        (["ilc/theory"], "at least two runs; there is 0"),
        ([], "Missing argument"),
    ],
)
def test_bad_usage_exits_with_2_and_says_why(capsys, runs, arguments, message):
    code, out, err = call(capsys, "compare", *arguments, "--runs", str(runs))
    assert code == 2
    assert message in " ".join(err.split())
    assert out == ""


def test_a_damaged_record_is_named(capsys, runs):
    folder = next((runs / PLAIN).iterdir())
    (folder / "record.json").write_text("{")
    code, _, err = call(capsys, "compare", AND_MASK, str(folder), "--runs", str(runs))
    assert code == 2
    assert "record.json is no record: it is cut off or not JSON" in err


def test_an_unfinished_run_is_refused(capsys, runs):
    folder = write(runs, IRM, (), status="interrupted")
    code, _, err = call(capsys, "compare", AND_MASK, str(folder), "--runs", str(runs))
    assert code == 2
    assert "ilc/synthetic/irm has no finished run to compare" in err


def test_a_plot_that_cannot_be_written_exits_with_1(capsys, runs, tmp_path):
    plot = ["--plot", str(tmp_path / "none" / "a.png")]
    code, out, err = call(capsys, "compare", AND_MASK, PLAIN, "--runs", str(runs), *plot)
    assert code == 1
    assert "there is no folder" in err
    assert "−49.33" in out, "the table is not lost"
