"""Render the Helm chart with the values in its ci/ into tests/deploy/golden (`make chart`)."""

import hashlib
import subprocess
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_CHART: Final = _ROOT / "deploy" / "chart" / "queen"
_GOLDEN: Final = _ROOT / "tests" / "deploy" / "golden"
_CHECKSUM: Final = _GOLDEN / "chart.sha256"
_HELM: Final = _ROOT / ".venv" / "bin" / "helm"


def render(values: str) -> str:
    """Return all objects of the release `queen` with a set of values."""
    file = _CHART / "ci" / f"{values}-values.yaml"
    ended = subprocess.run(
        [_HELM, "template", "queen", _CHART, "--namespace", "default", "--values", file],
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise SystemExit(f"helm does not render the chart with {file.name}: {ended.stderr}")
    return ended.stdout


def checksum() -> str:
    """Return the checksum of all files that change the rendered objects."""
    found = hashlib.sha256()
    for path in sorted(_CHART.rglob("*")):
        if path.is_file() and path.name not in ("NOTES.txt", "values.schema.json"):
            found.update(f"{path.relative_to(_CHART)}\n".encode() + path.read_bytes())
    return found.hexdigest() + "\n"


def is_current() -> bool:
    """Return whether the chart has not changed since it was rendered."""
    return _CHECKSUM.read_text("utf-8") == checksum()


def main() -> None:
    for file in sorted((_CHART / "ci").glob("*-values.yaml")):
        values = file.name.removesuffix("-values.yaml")
        (_GOLDEN / f"{values}.yaml").write_text(render(values), "utf-8")
    _CHECKSUM.write_text(checksum(), "utf-8")


if __name__ == "__main__":
    main()
