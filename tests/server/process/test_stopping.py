"""A signal that arrives while a server starts its workers."""

import os
import signal
import subprocess
import sys

from queen.server.process.supervisor import Supervisor
from queen.settings import Settings

MAIN = "from tests.server.process.test_stopping import main; main()"


class Work:
    """A worker that waits. The start of the second one is interrupted by a signal."""

    def __init__(self) -> None:
        self._starts = 0

    def __getstate__(self) -> dict[str, int]:
        self._starts += 1
        if self._starts == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return {}

    def __call__(self, slot: object) -> None:
        signal.pause()


def main() -> None:
    sys.exit(Supervisor(Settings(), 3, Work()).run())


def test_a_worker_that_is_being_started_stops_too() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MAIN], capture_output=True, text=True, timeout=20, check=False
    )

    assert ran.returncode == 0, ran.stderr
