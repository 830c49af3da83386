"""CPU time and wake-ups of process trees, from the counters of the scheduler."""

import os
import time
from pathlib import Path
from typing import Final, NamedTuple, Self

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")
_CPU_OF_ALL_THREADS: Final = 2


class _Process(NamedTuple):
    parent: int
    ended_seconds: float
    """The CPU time of its children that have ended."""


class Machine(NamedTuple):
    """Seconds of all cores since the start of the machine."""

    total: float
    busy: float
    stolen: float


class Snapshot:
    """All processes at one moment, and what they used since they started."""

    def __init__(self, processes: dict[int, _Process], machine: Machine) -> None:
        self._processes = processes
        self.machine = machine

    @classmethod
    def take(cls) -> Self:
        found = ((int(each.name), _process(each)) for each in _PROC.iterdir() if _is_pid(each))
        return cls({pid: process for pid, process in found if process}, _machine())

    def tree(self, root: int) -> list[int]:
        """Return a process and its descendants."""
        pids = [root]
        for pid in pids:
            pids += [child for child, process in self._processes.items() if process.parent == pid]
        return pids

    def ended_seconds(self, pid: int) -> float:
        process = self._processes.get(pid)
        return process.ended_seconds if process else 0.0


class Reading(NamedTuple):
    """CPU time and wake-ups of a tree of processes so far."""

    cpu_seconds: float
    wakeups: dict[str, int]
    """Voluntary context switches per thread."""

    @classmethod
    def of(cls, snapshot: Snapshot, root: int) -> Self:
        pids = snapshot.tree(root)
        # The time of a process moves to its parent when it ends, so the sum never decreases.
        used = sum(_cpu_seconds(pid) + snapshot.ended_seconds(pid) for pid in pids)
        return cls(used, {thread: count for pid in pids for thread, count in _wakeups(pid)})

    def wakeups_since(self, before: "Reading") -> int:
        """Return the wake-ups since an earlier reading, without those of threads that ended."""
        return sum(count - before.wakeups.get(of, 0) for of, count in self.wakeups.items())


def _is_pid(entry: Path) -> bool:
    return entry.name.isdigit()


def _process(entry: Path) -> _Process | None:
    try:
        # The name before it may contain any character.
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return _Process(int(fields[1]), (int(fields[13]) + int(fields[14])) / _TICKS)


def _cpu_seconds(pid: int) -> float:
    """
    Return the CPU time of a process: what `schedstat` has for each thread, and its ended threads.

    `stat` has the same in hundredths of a second, which is too coarse for a dozen backends.
    """
    try:
        return time.clock_gettime(~pid << 3 | _CPU_OF_ALL_THREADS)
    except OSError:
        return 0.0


def _wakeups(pid: int) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    try:
        for task in (_PROC / str(pid) / "task").iterdir():
            status = (task / "status").read_text()
            count = status.partition("\nvoluntary_ctxt_switches:")[2].partition("\n")[0]
            found.append((task.name, int(count)))
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def _machine() -> Machine:
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "stolen")
    line = (_PROC / "stat").read_text().partition("\n")[0].split()[1:]
    used = dict(zip(names, (int(each) / _TICKS for each in line), strict=False))
    # Without interrupts: those of the loopback network are ours.
    busy = used["user"] + used["nice"] + used["system"]
    return Machine(sum(used.values()), busy, used["stolen"])
