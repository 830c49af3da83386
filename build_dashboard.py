"""The build hook, which requires the dashboard for a wheel."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_COMMANDS = (["npm", "ci", "--ignore-scripts"], ["npm", "run", "build"])


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg] - hatchling says none
    """Builds the dashboard if `make dashboard` has not. An editable install works without it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if version == "editable" or (root / "src/queen/server/dashboard/index.html").exists():
            return
        if shutil.which("npm") is None:
            raise RuntimeError("the dashboard is not built: install npm, or run `make dashboard`")
        for command in _COMMANDS:
            subprocess.run(command, cwd=root / "dashboard", check=True)
