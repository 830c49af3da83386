"""The notebook example runs from top to bottom."""

import shlex
import subprocess
import sys
from pathlib import Path

from tests.spark.cluster import SOURCE, confs, environment
from tests.spark.filling import make
from tests.spark.place import arguments, quick

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark" / "orders.py"


def test_the_example_reads_plots_and_writes_back(dsn: str, tmp_path: Path) -> None:
    make(dsn, "orders")
    make(dsn, "revenue")

    answer = subprocess.run(
        [sys.executable, EXAMPLE],
        env={
            **environment(),
            "CHART": str(tmp_path),
            "DATABASE_URL": dsn,
            "HOME": str(tmp_path),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYSPARK_SUBMIT_ARGS": shlex.join([*arguments(quick(confs())), "pyspark-shell"]),
            "PYTHONPATH": str(SOURCE),
        },
        capture_output=True,
        text=True,
        timeout=200,
    )

    assert answer.returncode == 0, answer.stderr
    assert "5000 orders of 4 shops" in answer.stdout
    assert (tmp_path / "orders.png").read_bytes().startswith(b"\x89PNG")
