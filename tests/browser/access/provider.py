"""An OpenID provider as a process."""

import os
import socket
import subprocess
import sys
from pathlib import Path

CLIENT = "queen-dashboard"
AUDIENCE = "queen"


class Provider:
    """
    Starts and stops the process.

    The name of the user selects the behaviour: ``mallory`` gets the token of another sign-in,
    ``late`` gets an expired code, and ``nobody`` is rejected. If a name ends in a number, its
    tokens are valid for that number of seconds.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.issuer = f"https://localhost:{self.port}"
        self._arguments = [str(certificate), str(key), str(self.port)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it listens."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.browser.access.provider_app", *self._arguments],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[3])},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
