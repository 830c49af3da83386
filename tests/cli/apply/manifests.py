"""Write manifests, and run `queen apply` and `queen diff` on them."""

import json
from pathlib import Path
from typing import Any

from tests.cli.shell import Shell
from tests.support.prefork import Ended

DIFFERENT = 8
CONFLICT = 7


class Manifests:
    """
    Usage::

        await manifests.apply({"manager": "shop", "queues": {"orders": {}}})
        assert await manifests.changes() == []
    """

    def __init__(self, shell: Shell, directory: Path) -> None:
        self.shell = shell
        self.file = directory / "queen.yaml"

    def write(self, manifest: dict[str, Any] | str) -> None:
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        self.file.write_text(text, "utf-8")

    async def run(
        self,
        command: str,
        *flags: str,
        manifest: dict[str, Any] | str | None = None,
        **environment: str,
    ) -> Ended:
        """Run a command on the manifest, or on the last one."""
        if manifest is not None:
            self.write(manifest)
        return await self.shell.run(command, "-f", str(self.file), *flags, **environment)

    async def apply(self, manifest: dict[str, Any] | str, *flags: str) -> Ended:
        """Apply a manifest, which must succeed."""
        ended = await self.run("apply", *flags, manifest=manifest)
        assert ended.code == 0, ended
        return ended

    async def changes(self, *flags: str) -> list[dict[str, Any]]:
        """Return the changes that `queen diff` shows for the last manifest."""
        ended = await self.run("diff", *flags, "-o", "json")
        changes: list[dict[str, Any]] = ended.json
        assert ended.code == (DIFFERENT if changes else 0), ended
        return changes
