"""The log file of a run: Spark's own log and whole stack traces, which no terminal shows."""

import os
import re
import sys
import tempfile
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from queen.pipelines.report import without_secrets

KEPT_RUNS: Final = 5
"""Log files per pipeline. Older ones are deleted when a run starts."""


class RunLog:
    """The log file of one run."""

    def __init__(self, name: str) -> None:
        stem = re.sub(r"[^\w.-]", "_", name)[:100]
        directory = _directory()
        for old in sorted(directory.glob(f"{stem}-{'?' * 8}T{'?' * 6}Z-*.log"))[: -(KEPT_RUNS - 1)]:
            old.unlink(missing_ok=True)
            old.with_name(f"{old.name}.1").unlink(missing_ok=True)  # The first half of a long one.
        # The process id, because two runs can start in the same second.
        at = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        self.path = directory / f"{stem}-{at}-{os.getpid()}.log"
        # Errors can contain payloads, so only its owner can read it.
        os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))

    @contextmanager
    def taking_stderr(self) -> Generator[None]:
        """Redirect the stderr of processes that start in the block, such as the JVM, to the log."""
        sys.stderr.flush()
        kept = os.dup(2)
        with self.path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)

    def write_trace(self, error: BaseException) -> None:
        """Append an error and its causes, without passwords."""
        text = "".join(traceback.format_exception(error))
        with self.path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(without_secrets(text))


def _directory() -> Path:
    """Return a writable directory. A container often has no home directory."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    wanted = Path(home).expanduser() / "queen" / "pipelines"
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except (OSError, RuntimeError):
        return Path(tempfile.mkdtemp(prefix="queen-pipelines-"))
