"""The oldest supported Spark reads, writes, streams and runs pipelines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLDEST = "4.2"
SHORT_SET = (
    "tests/spark/source/test_source.py",
    "tests/spark/sink/test_sink.py",
    "tests/spark/pipelines/test_windows.py::test_windows_equal_those_computed_separately",
    "tests/spark/pipelines/test_kinds.py",
)


def test_the_extra_names_the_oldest_version() -> None:
    assert f'"pyspark>={OLDEST},<5"' in (ROOT / "pyproject.toml").read_text("utf-8")


@pytest.mark.slow  # It downloads and builds 400 MB.
@pytest.mark.timeout(3600)
def test_the_oldest_spark_passes_a_short_set_of_tests(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    options = ("--no-deps", "--python", sys.executable, "--target", packages)
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "pip", "install", *options, f"pyspark=={OLDEST}.*"], check=True)
    # The first directory wins over the environment, which has the newest version.
    path = os.pathsep.join((str(packages), str(ROOT / "src")))
    environment = {**os.environ, "PYTHONPATH": path}
    probe = [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"]
    found = subprocess.run(probe, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.startswith(f"{OLDEST}.")

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SHORT_SET]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert ended.returncode == 0, ended.stdout
