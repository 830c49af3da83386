"""systemd accepts the units, and finds their sandbox tight."""

import subprocess
from pathlib import Path

import pytest

from queen.cli.generate import deployment
from queen.cli.generate.systemd import unit
from tests.deploy.files import fence, output, program

UNITS = {"server": "queen.service", "worker": "queen-worker@.service"}


@pytest.mark.parametrize("kind", ["server", "worker"])
def test_systemd_accepts_a_unit(kind: str, tmp_path: Path) -> None:
    path = tmp_path / UNITS[kind]
    # The command must exist.
    path.write_text(unit(kind, program("true")))  # type: ignore[arg-type] - one of two
    instance = path.with_name(path.name.replace("@", "@shop"))
    ended = subprocess.run(
        [program("systemd-analyze"), "verify", "--man=no", instance if kind == "worker" else path],
        capture_output=True,
        text=True,
        timeout=50,
    )
    # Units of the machine are read too, so only lines about this one count.
    problems = [line for line in ended.stderr.splitlines() if "queen" in line]
    assert problems == []


def test_systemd_reports_a_mistake(tmp_path: Path) -> None:
    """Otherwise the test above proves nothing."""
    path = tmp_path / "queen.service"
    path.write_text(unit("server", program("true")).replace("KillMode=", "KilMode="))
    ended = subprocess.run(
        [program("systemd-analyze"), "verify", "--man=no", path], capture_output=True, text=True
    )
    assert "KilMode" in ended.stderr


@pytest.mark.parametrize(("kind", "most"), [("server", 15), ("worker", 20)])
def test_the_sandbox_is_tight(kind: str, most: int, tmp_path: Path) -> None:
    """systemd calls an exposure of up to 20 (of 100) the best."""
    path = tmp_path / UNITS[kind]
    path.write_text(unit(kind, program("true")))  # type: ignore[arg-type] - one of two
    output("systemd-analyze", "security", "--offline=yes", f"--threshold={most}", path)


def test_systemd_waits_longer_than_the_processes_need() -> None:
    assert f"TimeoutStopSec={deployment.STOP_SECONDS}s" in unit("server", "queen")
    worker = unit("worker", "queen")
    assert f"--shutdown-timeout {deployment.WORKER_SHUTDOWN_SECONDS}s" in worker
    assert deployment.WORKER_STOP_SECONDS > deployment.WORKER_SHUTDOWN_SECONDS
    assert f"TimeoutStopSec={deployment.WORKER_STOP_SECONDS}s" in worker


def test_the_page_names_files_of_the_units() -> None:
    assert "EnvironmentFile=/etc/queen/queen.env" in unit("server", "queen")
    assert "/etc/queen/worker-%i.env" in unit("worker", "queen")
    assert fence("systemd.md", "ini", "JOBS=").startswith("# /etc/queen/worker-shop.env")
