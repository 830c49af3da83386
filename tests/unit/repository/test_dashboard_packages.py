"""The dashboard's packages have exact versions, and the lock file names no registry."""

import json
import re
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
