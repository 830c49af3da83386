"""
Looks again at the few tests that failed in a whole run: each must pass five times alone.

Four processes on two cores make a test late now and then that measures time, and a minute in which
others have the machine makes several late at once. What they say of the product is the same alone;
a fault of the product is met again there. They are named at the end, for such tests are to be
mended. More than six are no accident, and one that failed without being a test (a process that
died, a rule of the whole run) is not looked at again.
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
        print(f"{len(failed)} tests failed: nothing to look at again", file=sys.stderr)
        return 1
    for turn in range(1, TIMES + 1):
        print(f"alone, {turn} of {TIMES}: {', '.join(failed)}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *failed]
        if subprocess.run(command, check=False).returncode:
            return 1
    print("To be mended, for they failed beside others and passed alone:", *failed, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
