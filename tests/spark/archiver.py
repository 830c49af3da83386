"""A driver of an archive as a process of its own, that kills itself after a step if told to."""

# pyright: basic
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from queen.spark.pipelines import archive

ROOT = Path(__file__).parents[2]


def start(config: archive.Config, *, after: str = "") -> "subprocess.Popen[bytes]":
    """Start a driver; ``after`` names the step after which it is killed."""
    text = msgspec.json.encode(config).decode()
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.archiver", text, after],
        env={**os.environ, "PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1"},
        stderr=subprocess.DEVNULL,
    )


def main(text: str, after: str) -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )

    def report(progress: archive.Progress) -> None:
        if progress.step == after:
            os.kill(os.getpid(), signal.SIGKILL)

    archive.run(spark, msgspec.json.decode(text, type=archive.Config), report=report)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
