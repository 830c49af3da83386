"""
Build the documentation site with Zensical, and repeat a build that could not start.

Zensical starts a thread that watches files. In a build, the thread ends if no directory is passed
to it within 100 milliseconds, and on a busy machine the main thread can be later than that. The
build then fails before it reads a page.

Usage::

    python -m tools.build_site
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ("zensical", "build", "--clean", "--strict", "--config-file", "mkdocs.yml")
_LATE = "RuntimeError: Watcher disconnected"
_MOST_ATTEMPTS = 5


def build(command: Sequence[str | Path]) -> int:
    """Run a build, print its output and return its exit code."""
    attempts = 0
    while True:
        attempts += 1
        result = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if _LATE not in result.stdout or attempts == _MOST_ATTEMPTS:
            print(result.stdout, end="")
            return result.returncode


if __name__ == "__main__":
    sys.exit(build([Path(sys.prefix) / "bin" / BUILD[0], *BUILD[1:]]))
