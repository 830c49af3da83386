"""The log files of runs: who can read them, what they contain, and how many are kept."""

from pathlib import Path

import pytest

from queen.pipelines.logs import KEPT_RUNS, RunLog


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "queen" / "pipelines"


def test_only_the_owner_can_read_a_log_and_it_has_no_passwords(state: Path) -> None:
    log = RunLog("archive-a/b")
    try:
        raise ValueError("no postgresql://me:secret@host/db")
    except ValueError as error:
        log.write_trace(error)

    assert log.path.parent == state
    assert log.path.name.startswith("archive-a_b-")
    assert log.path.stat().st_mode & 0o777 == 0o600
    text = log.path.read_text()
    assert "Traceback (most recent call last)" in text
    assert "secret" not in text


def test_the_last_logs_of_a_pipeline_are_kept(state: Path) -> None:
    state.mkdir(parents=True)
    olds = [state / f"archive-a-2026010{day}T000000Z-1.log" for day in range(1, 8)]
    other = state / "archive-a-2-20250101T000000Z-1.log"
    for each in (*olds, other):
        each.touch()
    rolled = state / f"{olds[0].name}.1"
    rolled.touch()

    log = RunLog("archive-a")

    kept = KEPT_RUNS - 1
    assert sorted(state.iterdir()) == sorted([*olds[-kept:], other, log.path])


def test_an_unwritable_home_does_not_stop_a_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(file))

    path = RunLog("a").path

    assert path.exists()
    path.unlink()
    path.parent.rmdir()
