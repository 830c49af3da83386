"""A pipeline of one queue uses its database, whichever of several it is."""

# pyright: basic

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from queen.cluster.cluster import Cluster
from tests.cluster.moves import Members
from tests.cluster.places import TWO, slot_of
from tests.cluster.user import item
from tests.spark.driver import ROOT
from tests.spark.moves.reader import named


async def test_an_archive_reads_the_database_of_its_queue_which_stays_there(
    cluster: Cluster, members: Members, databases: dict[str, str], tmp_path: Path
) -> None:
    await cluster.push([item(each, TWO) for each in range(3)])

    ran = await asyncio.to_thread(_archive, databases, tmp_path / "lake")

    assert ran.returncode == 0, ran.stderr
    archived = "select messages from queen.archive_batches where archive = $1"
    assert await members.value("two", archived, TWO) == 3
    progress = await members.move(slot_of(TWO), "two", "main").step()
    assert progress.waits_for == f"archive {TWO} reads queue {TWO}"


def _archive(databases: dict[str, str], lake: Path) -> subprocess.CompletedProcess[str]:
    options = {"queue": TWO, "location": str(lake), "format": "parquet"}
    words = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    return subprocess.run(
        [sys.executable, "-m", "queen", "pipeline", "archive", "--engine", "local", *words],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(lake.parent),
            "PYTHONPATH": str(ROOT / "src"),
            "QUEEN_DATABASES": named(databases),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
