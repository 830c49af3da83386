"""
Rerun the few tests that failed in a full run: each must pass five times without other load.

With four processes on two cores, tests that measure time sometimes fail, and several fail
together while other programs use the machine. A real defect also shows without that load.
Tests that pass are listed at the end, because they need a fix. More than six failures are not
a coincidence, and failures outside of tests (a process that died, a rule of the whole run) are
not rerun.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")
MOST: Final = 6
TIMES: Final = 5


def main() -> int:
    failed: list[str] = [*json.loads(FAILED.read_text())] if FAILED.exists() else []
    if not 0 < len(failed) <= MOST or not all("::" in test for test in failed):
        print(f"{len(failed)} tests failed: not rerun", file=sys.stderr)
        return 1
    for turn in range(1, TIMES + 1):
        print(f"rerun {turn} of {TIMES}: {', '.join(failed)}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *failed]
        if subprocess.run(command, check=False).returncode:
            return 1
    print("Fix these tests, which failed only in the full run:", *failed, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
