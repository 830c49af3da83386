"""Runs `queen …` against one server, as a person or a script would."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.prefork import SOURCE, Ended, run_queen
from tests.support.server import Server


class Shell:
    """
    Usage::

        ended = await shell.run("queue", "ls", "-o", "json")
        assert (ended.code, ended.json) == (0, [])
    """

    def __init__(self, server: Server, home: Path) -> None:
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(SOURCE),
            "QUEEN_BASE_URL": server.base_url,
            "XDG_CONFIG_HOME": str(home),
        }

    async def run(self, *arguments: str, given: str = "", **environment: str) -> Ended:
        """Run one command to its end."""
        variables = self._variables(environment)
        return await asyncio.to_thread(run_queen, *arguments, environment=variables, stdin=given)

    def _variables(self, environment: dict[str, str]) -> dict[str, str]:
        """An empty variable is unset."""
        return {name: value for name, value in (self.environment | environment).items() if value}

    @asynccontextmanager
    async def started(
        self, *arguments: str, **environment: str
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        """Run one command until the block ends."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "queen",
            *arguments,
            env=self._variables(environment),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
