import errno
import json

import pytest

from made_up import folder_of, make_record
from recombine.cli import main
from recombine.cli._errors import explain_errors
from recombine.experiments import match_rows

SMALL = {
    "num_envs": 4,
    "num_examples": 32,
    "num_shortcuts": 4,
    "num_test": 64,
    "hidden_units": 8,
    "hidden_layers": 2,
    "batch_size": 16,
    "steps": 4,
    "eval_every": 2,
}
TINY = ["--seeds", "1", *(part for key in SMALL for part in ("--set", f"{key}={SMALL[key]}"))]


def call(capsys, *arguments):
    """Returns exit code, standard output and error output."""
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    output = capsys.readouterr()
    return stopped.value.code or 0, output.out, output.err


def test_list_names_every_row(capsys):
    code, out, _ = call(capsys, "list", "ilc/*", "--json")
    assert code == 0
    listed = [row["id"] for row in json.loads(out)]
    assert {"ilc/synthetic/and-mask", "ilc/synthetic/baseline"} <= set(listed)
    assert all(row_id.startswith("ilc/") for row_id in listed)
    everything = call(capsys, "list")[1]
    assert all(row.id in everything for row in match_rows("*"))


def test_show_tells_claim_settings_and_paper(capsys, tmp_path):
    code, out, _ = call(capsys, "show", "ilc/synthetic/and-mask", "--runs", str(tmp_path))
    assert code == 0
    assert "perfect test accuracy" in out
    assert "learning_rate" in out
    assert "not run" in out
    data = json.loads(call(capsys, "show", "ilc/synthetic/and-mask", "--json")[1])
    assert data["settings"]["full"]["seeds"] == 50
    assert data["settings"]["quick"]["hidden_units"] == 128


def test_run_then_table_then_report(capsys, tmp_path):
    runs = ["--runs", str(tmp_path / "runs")]
    code, out, err = call(
        capsys, "run", "ilc/synthetic/baseline", "--quick", *TINY, *runs, "--json"
    )
    assert code == 0
    [line] = json.loads(out)
    assert line["ours"]["n"] == 1
    assert line["verdict"] == "not judged"
    assert "test accuracy" in err
    twice = ("ilc/synthetic/baseline", "ilc/*/baseline")  # both are the one row
    code, out, err = call(capsys, "run", *twice, "--quick", *TINY, *runs)
    assert "compiling" not in err, "a finished run must not be run again"
    code, out, _ = call(capsys, "table", "ilc/*", *runs, "--json")
    lines = {line["id"]: line for line in json.loads(out)}
    assert set(lines) == {row.id for row in match_rows("ilc/*")}
    assert lines["ilc/synthetic/baseline"]["ours"]["mean"] == line["ours"]["mean"]
    assert lines["ilc/synthetic/and-mask"]["ours"] is None
    assert lines["ilc/synthetic/and-mask"]["verdict"] == "not run"
    assert "| ilc/synthetic/baseline |" in call(capsys, "table", *runs, "--markdown")[1]
    code, _, err = call(capsys, "report", *runs, "-o", str(tmp_path / "page.html"))
    assert code == 0
    assert str(tmp_path / "page.html") in err
    assert "ilc/synthetic/baseline" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "ilc/synthetic/basline"], "try ilc/synthetic/baseline"),
        (["run", "ilc/synthetic/baseline", "ilc/synthetic/basline"], "try ilc/synthetic/baseline"),
        (["show", "nothing"], "no row is called 'nothing'"),
        (["list", "zzz"], "no row matches 'zzz'; `recombine list` prints them all"),
        (["run", "ilc/synthetic/baseline", "--set", "seeds=3"], "use --seeds 3"),
        (["run", "ilc/synthetic/baseline", "--set", "tresh=1"], "there is no setting 'tresh'"),
        (["run", "ilc/synthetic/baseline", "--set", "batch_size=x"], "`batch_size`"),
        (["run", "ilc/synthetic/baseline", "--set", "threshold=1.2"], "`threshold`"),
        (["run", "ilc/synthetic/baseline", "--set", "num_envs=1"], "`num_envs`"),
        (["run", "ilc/synthetic/and-mask-printed", "--quick"], "no quick variant"),
        (["run", "ilc/synthetic/baseline", "--seeds", "0"], "--seeds"),
        (
            ["run", "ilc/synthetic/baseline", "--together", "--engine", "ray"],
            "leave one of them out",
        ),
        (["run"], "Missing argument"),
        (["dance"], "No such command"),
    ],
)
def test_bad_usage_exits_with_2_and_says_why(capsys, tmp_path, arguments, message):
    more = ["--runs", str(tmp_path)] if arguments[0] in ("run", "show") else []
    code, out, err = call(capsys, *arguments, *more)
    assert code == 2
    assert message in err
    assert out == ""
    assert not list(tmp_path.iterdir()), "bad usage must leave nothing behind"


@pytest.mark.parametrize("command", [["table"], ["report", "-o", "page.html"]])
def test_a_runs_folder_that_is_not_there_is_said(capsys, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    code, _, err = call(capsys, *command, "--runs", "nowhere")
    assert code == 0
    assert "there is no folder nowhere: nothing has been run there" in err
    (tmp_path / "file").write_text("in the way")
    code, _, err = call(capsys, *command, "--runs", "file")
    assert code == 2
    assert "file is a file; the folder of all runs was expected" in err


def test_the_table_says_what_an_unjudged_row_waits_for(capsys, tmp_path):
    final = {"test_accuracy": (0.5, 0.5, 0.5), "train_accuracy": (1.0, 1.0, 1.0)}
    folder_of(tmp_path, make_record("ilc/synthetic/baseline", final=final))
    _, out, _ = call(capsys, "table", "ilc/synthetic/baseline", "--runs", str(tmp_path))
    assert "not judged: ilc/synthetic/baseline (quick): " in out
    assert "ilc/synthetic/and-mask must be run in the same variant to compare with" in out


def test_errors_of_the_system_are_words(capsys, tmp_path):
    (tmp_path / "file").write_text("in the way")
    shown = ["show", "asi/room-runner/asi", "--runs", str(tmp_path / "runs")]
    code, _, err = call(capsys, *shown, "--pictures", str(tmp_path / "file"))
    assert code == 1
    assert f"pictures cannot be written to {tmp_path / 'file'}: File exists" in err
    with pytest.raises(SystemExit) as stopped, explain_errors():
        raise OSError(errno.ENOSPC, "No space left on device", "place")
    assert stopped.value.code == 1
    assert capsys.readouterr().err == "recombine: No space left on device: place\n"


def test_an_unwritable_runs_folder_exits_with_2(capsys, tmp_path):
    (tmp_path / "file").write_text("in the way")
    runs = ["--runs", str(tmp_path / "file" / "runs")]
    code, _, err = call(capsys, "run", "ilc/synthetic/baseline", "--quick", *TINY, *runs)
    assert code == 2
    assert "cannot be written" in err


def test_a_failed_run_exits_with_1_and_the_others_still_run(capsys, tmp_path):
    broken = ["--set", "learning_rate=1e38", "--set", "steps=40"]
    runs = ["--runs", str(tmp_path)]
    code, _, err = call(capsys, "run", "ilc/synthetic/ba*", "--quick", *TINY, *broken, *runs)
    assert code == 1
    assert err.count("was not finite at step") >= 1
    code, out, _ = call(capsys, "table", *runs, "--json")
    statuses = [line["verdict"] for line in json.loads(out) if line["variant"]]
    assert "failed" in statuses
    assert len(statuses) == 2


def test_rows_side_by_side_are_run_and_a_failed_one_is_named(capsys, tmp_path):
    broken = ["--set", "learning_rate=1e38", "--set", "steps=40"]
    runs = ["--runs", str(tmp_path)]
    rows = "ilc/synthetic/ba*"
    code, out, err = call(capsys, "run", rows, "--together", "--quick", *TINY, *runs, "--json")
    assert code == 0
    assert err.count("test accuracy") == len(json.loads(out)) == 2
    code, _, err = call(capsys, "run", rows, "--together", "--quick", *TINY, *broken, *runs)
    assert code == 1
    assert err.count("not finite at step") >= 1


def test_a_foreign_file_among_the_runs_is_named_and_passed_over(capsys, tmp_path):
    (tmp_path / "record.json").write_text("not ours")
    code, _, err = call(capsys, "table", "--runs", str(tmp_path))
    assert code == 0
    assert "record.json was passed over" in err


def test_doctor_knows_the_machine(capsys):
    code, out, _ = call(capsys, "doctor", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["devices"][0]["platform"] == "cpu"
    assert found["cache"]["writable"] is True
    assert set(found["extras"]) == {"cuda", "mujoco", "tune", "ray", "docs"}
    assert (
        "pip install 'recombine[mujoco]'" in call(capsys, "doctor")[1] or found["extras"]["mujoco"]
    )


def test_the_evidence_can_be_tabled(capsys):
    code, out, _ = call(capsys, "table", "--evidence", "--json")
    assert code == 0
    assert {"id", "metric", "paper", "ours", "verdict", "device", "seconds"} <= set(
        json.loads(out)[0]
    )
