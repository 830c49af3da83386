"""Paths, programs and pods that the tests of deploy/ share."""

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from tests.support.prefork import SOURCE, Ended, run_queen

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart" / "queen"
GOLDEN = Path(__file__).parent / "golden"
PAGES = ROOT / "docs" / "operate" / "deploy"
RELEASE: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

Object = dict[str, Any]


def program(name: str) -> str:
    """Path of a program, which Debian may install outside the PATH of ordinary users."""
    found = shutil.which(name, path=f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}:/usr/sbin")
    assert found is not None, f"{name} is missing: `make setup` installs it"
    return found


def output(*command: str | Path) -> str:
    """Run a program that must succeed, and return its output."""
    ended = subprocess.run(
        [program(str(command[0])), *command[1:]], capture_output=True, text=True, timeout=50
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def queen(*arguments: str, **environment: str) -> Ended:
    """Run `queen …` without a server."""
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), **environment}
    return run_queen(*arguments, environment=variables)


def started(command: list[str], log: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Start a program that runs until it is killed."""
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )


def documents(text: str) -> list[Object]:
    """Return the documents of a YAML file, without empty ones."""
    return [each for each in yaml.safe_load_all(text) if each]


def fence(page: str, language: str, containing: str) -> str:
    """Return the code block of a page in docs/operate/deploy that contains a text."""
    text = (PAGES / page).read_text("utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    (block,) = (each for each in found if containing in each)
    return block


def pods(objects: list[Object]) -> Iterator[Object]:
    """The specifications of all pods."""
    for each in objects:
        if each["kind"] == "Pod":
            yield each["spec"]
        elif "template" in each.get("spec", {}):
            yield each["spec"]["template"]["spec"]


def texts(value: object) -> Iterator[str]:
    """All strings in a tree."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in cast("Mapping[str, object]", value).values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from texts(each)
