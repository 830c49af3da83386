"""
The dashboard's packages are pinned, run no install scripts, and vendored files are unchanged.

Its links to the documentation are those of the Python package.
"""

import hashlib
import json
import re
import tomllib
from pathlib import Path

DASHBOARD = Path(__file__).parents[3] / "dashboard"


def test_every_package_is_pinned_exactly() -> None:
    named = json.loads((DASHBOARD / "package.json").read_text("utf-8"))
    pins = {**named["dependencies"], **named["devDependencies"]}

    assert pins
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", pin) for pin in pins.values())


def test_the_lock_file_names_no_registry() -> None:
    text = (DASHBOARD / "package-lock.json").read_text("utf-8")
    locked = json.loads(text)["packages"]

    assert '"resolved"' not in text
    assert "registry" not in text
    # Hashes cover the packages for this machine. Other platforms are optional.
    assert all(
        "integrity" in package or package.get("optional")
        for name, package in locked.items()
        if name
    )


def test_no_package_that_reports_installs_is_locked() -> None:
    locked = json.loads((DASHBOARD / "package-lock.json").read_text("utf-8"))["packages"]

    assert [name for name in locked if "scarf" in name] == []


def test_vendored_files_have_the_checksums_of_their_release() -> None:
    folder = DASHBOARD / "vendor" / "swagger-ui"
    listed = re.findall(
        r"^([0-9a-f]{64})  (\S+)$", (folder / "README.md").read_text(), re.MULTILINE
    )
    files = [path for path in folder.iterdir() if path.name != "README.md"]

    assert {name: digest for digest, name in listed} == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


def test_links_to_the_documentation_have_the_address_of_the_package() -> None:
    project = tomllib.loads((DASHBOARD.parent / "pyproject.toml").read_text("utf-8"))["project"]
    config = (DASHBOARD / "src" / "lib" / "pageConfig.ts").read_text("utf-8")

    assert f'documentation = "{project["urls"]["Documentation"]}"' in config
