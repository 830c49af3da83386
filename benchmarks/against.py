"""
Compare this checkout with another commit: the same benchmark, one round each, in turns.

A shared machine gets faster and slower by the minute. Rounds in turns share those minutes, so the
ratio of two neighbouring rounds is fair where two absolute rates are not. The last line is one JSON
object: per rate, the median ratio of this checkout to the other commit. ``control`` is the same for
rows of a plain table, where the benchmark measures them: its distance from 1 is noise.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
HTTP_RATES = ("push_1", "push_100", "push_1000", "mixed_100")
CONTROL = ("copy_", "insert_")


@contextmanager
def checkout(ref: str) -> Generator[Path]:
    """A temporary worktree of a commit."""
    with tempfile.TemporaryDirectory(prefix="queen-against-") as directory:
        tree = Path(directory) / "tree"
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), ref], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def rates(tree: Path, benchmark: str, flags: list[str]) -> dict[str, float]:
    """Run one round of a benchmark in a checkout and return its rates in messages per second."""
    finished = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{benchmark}", "--rounds", "1", *flags],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return found["rates"] if benchmark == "engine" else {name: found[name] for name in HTTP_RATES}


def geometric_mean(ratios: dict[str, float]) -> float | None:
    return round(statistics.geometric_mean(ratios.values()), 3) if ratios else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ref", help="the commit to compare with")
    parser.add_argument("benchmark", choices=["engine", "http"])
    parser.add_argument("--rounds", type=int, default=5)
    arguments, flags = parser.parse_known_args()
    ratios: dict[str, list[float]] = {}
    with checkout(arguments.ref) as other:
        for number in range(arguments.rounds):
            # The second of a pair always runs on a warmer machine, so the order alternates.
            first, second = (HERE, other) if number % 2 else (other, HERE)
            measured = {tree: rates(tree, arguments.benchmark, flags) for tree in (first, second)}
            for name, rate in measured[HERE].items():
                ratios.setdefault(name, []).append(rate / measured[other][name])
            shown = ", ".join(f"{name} {each[-1]:.2f}" for name, each in ratios.items())
            print(f"round {number + 1}: {shown}", flush=True)
    medians = {name: round(statistics.median(each), 3) for name, each in ratios.items()}
    control = {name: ratio for name, ratio in medians.items() if name.startswith(CONTROL)}
    ours = {name: ratio for name, ratio in medians.items() if name not in control}
    result = {"against": arguments.ref, "mean": geometric_mean(ours), "ratios": ours}
    print(json.dumps({**result, "control": geometric_mean(control)}))


if __name__ == "__main__":
    main()
