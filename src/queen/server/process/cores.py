"""Count the cores that this process may use, which are fewer than the machine's in a container."""

import math
import os
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN_GROUP: Final = Path("/proc/self/cgroup")


def usable_cores(groups: Path = _GROUPS, own_group: Path = _OWN_GROUP) -> int:
    """Return the cores that the CPU affinity and the container's CPU limit allow, at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, math.ceil(min(cores or 1, _limit(groups, own_group))))


def _limit(groups: Path, own_group: Path) -> float:
    """Return the smallest CPU limit of this control group, in cores."""
    # In a container, the root is its own group. A service of systemd has a path below the root.
    directories = {groups}
    for line in _text(own_group).splitlines():
        number, _, path = line.split(":", 2)
        if number == "0":
            directories.add(groups / path.lstrip("/"))
    limits = [_cores(_text(each / "cpu.max").split()) for each in directories]
    quota, period = (_text(groups / "cpu" / f"cpu.cfs_{each}_us") for each in ("quota", "period"))
    return min(*limits, _cores([quota.strip(), period.strip()]))


def _cores(words: list[str]) -> float:
    """Return quota divided by period. Both are microseconds, and `max` or -1 means unlimited."""
    match words:
        case [quota, period] if quota.isdecimal() and period.isdecimal() and int(period):
            return int(quota) / int(period)
        case _:
            return math.inf


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError):
        return ""
