"""Find descendants of a process in /proc, and end processes."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def wait(condition: Callable[[], bool], seconds: float, complaint: Callable[[], str]) -> None:
    """Wait for a condition in another process, up to a time limit."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(complaint())
        time.sleep(0.05)


def children(parent: int) -> list[int]:
    """The PIDs of the direct children."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _stat(int(entry.name))[1:2] == [str(parent)]
    ]


def descendants(pid: int) -> list[int]:
    """The PIDs of all descendants."""
    found: list[int] = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def command(pid: int) -> str:
    """The command line of a process, or an empty string if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_alive(pid: int) -> bool:
    """True if it still runs. A zombie does not."""
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def kill(pids: list[int], seconds: float = 30) -> None:
    """Kill processes, and wait until they have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait(
        lambda: not any(is_alive(pid) for pid in pids),
        seconds,
        lambda: f"these did not end: {[pid for pid in pids if is_alive(pid)]}",
    )


def _stat(pid: int) -> list[str]:
    """The fields from the state on, or an empty list if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()  # The name before it may contain any character.
