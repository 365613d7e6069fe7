from tiny_learners import Halve

from recombine.training import PlainProgress, TerminalProgress, fit, make_progress


def test_plain_lines_where_there_is_no_terminal(capfd):
    assert isinstance(make_progress(), PlainProgress)
    fit(Halve(), steps=4, eval_every=2, seeds=[0, 1], progress=PlainProgress("halving", "value"))
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == "halving: 2 seeds, 4 steps"
    assert lines[1] == "halving: compiling"
    assert lines[-1].startswith("halving: step 4/4  value 0.0625")
    assert "steps/s" in lines[-1]


def test_a_bar_on_a_terminal(capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    assert isinstance(make_progress(), TerminalProgress)
    fit(Halve(), steps=4, eval_every=2, progress=TerminalProgress("halving", "value"))
    shown = capfd.readouterr().err
    assert "halving" in shown
    assert "100%" in shown
    assert "value" in shown
    assert "steps/s" in shown


def test_a_resumed_run_says_where(tmp_path, capfd):
    fit(Halve(), steps=4, eval_every=2, checkpoints=tmp_path, progress=False)
    fit(Halve(), steps=4, eval_every=2, checkpoints=tmp_path, progress=PlainProgress())
    assert "resumed at step 4" in capfd.readouterr().err
