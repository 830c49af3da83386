"""`make dist` rejects a release without the dashboard, or with tools in its bill of materials."""

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools.check_release import IN_WHEEL, NOT_RUNTIME, ROOT, problems, runtime_names

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
RELEASE = f"queenmq-{PROJECT['project']['version']}"


def write_release(directory: Path, files: Iterable[str], packages: Iterable[str]) -> None:
    with ZipFile(directory / f"{RELEASE}-py3-none-any.whl", "w") as wheel:
        for name in files:
            wheel.writestr(name, "")
    (directory / f"{RELEASE}.tar.gz").touch()
    sbom = {"components": [{"name": name} for name in packages]}
    (directory / "sbom.json").write_text(json.dumps(sbom), "utf-8")


def test_a_complete_release_has_no_problems(tmp_path: Path) -> None:
    # The names of packages are written in several ways.
    packages = {each.replace("-", "_") for each in runtime_names(PROJECT)} | {"Yarl"}
    write_release(tmp_path, IN_WHEEL, packages)
    assert [*problems(tmp_path)] == []


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    assert [*problems(tmp_path)] == [f"{tmp_path}/{RELEASE}-py3-none-any.whl is missing"]


@pytest.mark.parametrize(
    ("files", "extra", "lost", "problem"),
    [
        (IN_WHEEL, "pytest", None, "sbom.json lists pytest, a tool"),
        (IN_WHEEL, None, "asyncpg", "sbom.json lacks asyncpg"),
        (IN_WHEEL[1:], None, None, f"{RELEASE}-py3-none-any.whl lacks {IN_WHEEL[0]}"),
    ],
)
def test_a_wrong_file_is_a_problem(
    tmp_path: Path, files: tuple[str, ...], extra: str | None, lost: str | None, problem: str
) -> None:
    packages = (runtime_names(PROJECT) | {extra or "yarl"}) - {lost}
    write_release(tmp_path, files, (each for each in packages if each))
    (found,) = problems(tmp_path)
    assert found.endswith(problem)


def test_the_bill_of_materials_covers_every_extra_for_production() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (listed,) = re.findall(r"^RUNTIME_EXTRAS := (.+)$", makefile, flags=re.MULTILINE)
    assert listed.split() == sorted({*PROJECT["project"]["optional-dependencies"]} - {*NOT_RUNTIME})
