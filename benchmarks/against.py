"""
Compare this checkout with another commit: both run the same benchmark at once, on half the cores.

A shared machine gets faster and slower by the second. Two runs at the same time share those
seconds, so the ratio of their rates is fair where two rates in turns are not. The halves are
swapped for the second run of each round. The last line is one JSON object: per rate, the mean ratio
of this checkout to the other commit and its standard error. ``control`` is the same for rows of a
plain table, where the benchmark measures them: its distance from 1 is noise.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
RATES = {
    "http": ("push_1", "push_100", "push_1000", "mixed_100"),
    "client": ("unbuffered_rate", "buffered_rate", "consume_rate"),
}
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


def start(tree: Path, cores: set[int], benchmark: str, flags: list[str]) -> "subprocess.Popen[str]":
    """Start one round of a benchmark in a checkout, on these cores."""
    running = subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.{benchmark}", "--rounds", "1", *flags],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        stdout=subprocess.PIPE,
        text=True,
    )
    os.sched_setaffinity(running.pid, cores)
    return running


def rates(running: "subprocess.Popen[str]", benchmark: str) -> dict[str, float]:
    """Wait for a benchmark and return its rates in messages per second."""
    output, _ = running.communicate()
    if running.returncode:
        sys.exit(f"The benchmark failed with exit code {running.returncode}.")
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return (
        found["rates"]
        if benchmark == "engine"
        else {name: found[name] for name in RATES[benchmark]}
    )


def compare(other: Path, benchmark: str, flags: list[str]) -> dict[str, float]:
    """One round: the ratio of each rate, the mean of two runs between which the cores swap."""
    cores = sorted(os.sched_getaffinity(0))
    halves = [set(cores[: len(cores) // 2]), set(cores[len(cores) // 2 :])]
    runs: list[dict[str, float]] = []
    for ours, theirs in (halves, reversed(halves)):
        started = [start(HERE, ours, benchmark, flags), start(other, theirs, benchmark, flags)]
        here, there = (rates(each, benchmark) for each in started)
        runs.append({name: rate / there[name] for name, rate in here.items()})
    return {name: math.sqrt(runs[0][name] * runs[1][name]) for name in runs[0]}


def geometric_mean(ratios: Iterable[float]) -> float | None:
    found = list(ratios)
    return round(statistics.geometric_mean(found), 3) if found else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ref", help="the commit to compare with")
    parser.add_argument("benchmark", choices=["engine", *RATES])
    parser.add_argument("--rounds", type=int, default=5)
    arguments, flags = parser.parse_known_args()
    ratios: dict[str, list[float]] = {}
    with checkout(arguments.ref) as other:
        for number in range(arguments.rounds):
            for name, ratio in compare(other, arguments.benchmark, flags).items():
                ratios.setdefault(name, []).append(ratio)
            shown = ", ".join(f"{name} {each[-1]:.2f}" for name, each in ratios.items())
            print(f"round {number + 1} of {arguments.rounds}: {shown}", flush=True)
    means = {name: geometric_mean(each) for name, each in ratios.items()}
    spread = {
        name: round(statistics.stdev(each) / math.sqrt(len(each)), 3)
        for name, each in ratios.items()
        if len(each) > 1
    }
    ours = {name: mean for name, mean in means.items() if not name.startswith(CONTROL)}
    result = {
        "against": arguments.ref,
        "mean": geometric_mean(mean for mean in ours.values() if mean),
        "ratios": ours,
        "standard_errors": spread,
        "control": geometric_mean(m for name, m in means.items() if m and name not in ours),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
