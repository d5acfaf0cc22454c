"""Bars: one for each solution, moved by what is told, and silent without a terminal."""

from headcount.commands.bars import DistilProgress


def test_every_solution_has_a_bar_of_its_own(capsys):
    with DistilProgress(shown=True) as bars:
        for used in (0.5, 1.0):
            bars.note("uniform", used, 0.03)
        bars.note("free", 0.25, 0.02)
        assert [(task.completed, task.description) for task in bars.tasks] == [
            (1.0, "uniform plan, held-out distance 3.0e-2"),
            (0.25, "free plan, held-out distance 2.0e-2"),
        ]
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_them(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with DistilProgress(shown=True) as bars:
        bars.note("free", 0.5, 0.02)
    assert "free plan, held-out distance 2.0e-2" in capsys.readouterr().err
    with DistilProgress(shown=False) as bars:
        bars.note("free", 0.5, 0.02)
    assert capsys.readouterr().err == ""
