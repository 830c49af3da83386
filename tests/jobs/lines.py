"""Lines that the jobs of `tests.jobs.application` wrote."""

from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    what: str
    data: str
    attempt: int
    pid: int
    at: float
    lease_until: float
    """Delivery time by the server's clock, plus the lease time."""
    key: str


def lines(log: Path, what: str = "") -> list[Line]:
    if not log.exists():
        return []
    found: list[Line] = []
    # The last line has no end while another process writes it.
    for line in log.read_text().split("\n")[:-1]:
        kind, data, attempt, pid, at, until, key = line.split(" ")
        if what in ("", kind):
            found.append(Line(kind, data, int(attempt), int(pid), float(at), float(until), key))
    return found


def most_in_a_window(instants: list[float], seconds: float = 1.0) -> int:
    """The maximum number of lines in any window of this length."""
    instants = sorted(instants)
    most = first = 0
    for last, at in enumerate(instants):
        while at - instants[first] >= seconds:
            first += 1
        most = max(most, last - first + 1)
    return most
