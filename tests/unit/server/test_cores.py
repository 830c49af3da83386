"""The default number of processes respects the CPU limit of a container."""

import os
from pathlib import Path

import pytest

from queen.server.process.cores import usable_cores

ALL = len(os.sched_getaffinity(0))


def cores(directory: Path, own_group: str = "0::/\n", **files: str) -> int:
    """Return the cores in a control group with these files. `__` in a name is a slash."""
    for name, text in files.items():
        path = directory / name.replace("__", "/").replace("cpu_max", "cpu.max")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (directory / "own").write_text(own_group)
    return usable_cores(directory, directory / "own")


def test_a_machine_without_control_groups_counts_all_cores(tmp_path: Path) -> None:
    assert usable_cores(tmp_path, tmp_path / "missing") == ALL


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("max 100000\n", ALL), ("100000 100000\n", 1), ("20000 100000\n", 1), ("", ALL)],
)
def test_a_container_has_the_limit_of_its_root_group(
    tmp_path: Path, limit: str, expected: int
) -> None:
    assert cores(tmp_path, cpu_max=limit) == expected


def test_a_service_has_the_limit_of_its_own_group(tmp_path: Path) -> None:
    group = "0::/system.slice/queen.service\n"
    limits = {"system.slice__queen.service__cpu_max": "50000 100000\n"}

    assert cores(tmp_path, group, **limits) == 1


@pytest.mark.parametrize(("quota", "expected"), [("-1\n", ALL), ("100000\n", 1)])
def test_version_1_of_control_groups_is_read(tmp_path: Path, quota: str, expected: int) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")

    assert cores(tmp_path, "4:cpu,cpuacct:/docker/1\n") == expected


def test_a_limit_above_the_cores_has_no_effect(tmp_path: Path) -> None:
    assert cores(tmp_path, cpu_max=f"{(ALL + 8) * 100000} 100000\n") == ALL
