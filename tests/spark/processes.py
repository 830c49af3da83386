"""Processes below one of ours, found in /proc, and the end of those that are ours."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def wait(condition: Callable[[], bool], seconds: float, complaint: Callable[[], str]) -> None:
    """Wait for what another process does, for a bounded time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(complaint())
        time.sleep(0.05)


def children(parent: int) -> list[int]:
    """The pids whose parent this is."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _stat(int(entry.name))[1:2] == [str(parent)]
    ]


def descendants(pid: int) -> list[int]:
    """Children, and theirs, and so on."""
    found: list[int] = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def command(pid: int) -> str:
    """How a process was started; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_alive(pid: int) -> bool:
    """Whether it still runs: a zombie does not."""
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def kill(pids: list[int], seconds: float = 30) -> None:
    """End processes at once, and wait until they are gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait(
        lambda: not any(is_alive(pid) for pid in pids),
        seconds,
        lambda: f"these did not end: {[pid for pid in pids if is_alive(pid)]}",
    )


def _stat(pid: int) -> list[str]:
    """State, parent and so on; empty when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()  # The name before may hold anything.
