"""The examples run from top to bottom, as a notebook and as a script."""

# pyright: basic

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.spark.cluster import SOURCE, confs, environment
from tests.spark.filling import make
from tests.spark.place import arguments, quick

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"


def variables(dsn: str, home: Path) -> dict[str, str]:
    return {
        **environment(),
        "DATABASE_URL": dsn,
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYSPARK_SUBMIT_ARGS": shlex.join([*arguments(quick(confs())), "pyspark-shell"]),
        "PYTHONPATH": str(SOURCE),
    }


def test_the_notebook_reads_groups_plots_and_streams(dsn: str, tmp_path: Path) -> None:
    make(dsn, "orders")
    notebook: Any = nbformat.read(EXAMPLES / "orders.ipynb", as_version=4)
    assert [cell.id for cell in notebook.cells if cell.get("outputs")] == []  # As committed.

    client = NotebookClient(
        notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute(env={**os.environ, **variables(dsn, tmp_path)})

    outputs = [each for cell in notebook.cells for each in cell.get("outputs", [])]
    shown = [each.get("data", {}) for each in outputs]
    assert len([each for each in shown if "image/png" in each]) == 2
    (table,) = (each["text/plain"] for each in shown if "revenue" in each.get("text/plain", ""))
    assert "shop-3    1250  134692.0" in table
    assert "[(0, 5000), (1, 1000), (2, 1000), (3, 1000)]" in [
        each.get("text/plain") for each in shown
    ]


@pytest.mark.nightly
def test_the_script_reads_plots_and_writes_back(dsn: str, tmp_path: Path) -> None:
    make(dsn, "orders")
    make(dsn, "revenue")

    answer = subprocess.run(
        [sys.executable, EXAMPLES / "orders.py"],
        env={**variables(dsn, tmp_path), "CHART": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )

    assert answer.returncode == 0, answer.stderr
    assert "5000 orders of 4 shops" in answer.stdout
    assert (tmp_path / "orders.png").read_bytes().startswith(b"\x89PNG")
