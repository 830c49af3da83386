"""Runs `queen …` against one server, as a person or a script would."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.server import Server

SOURCE = Path(__file__).parents[2] / "src"


class Ended(NamedTuple):
    code: int
    out: str
    said: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - of JSON
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


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
        async with self.started(*arguments, **environment) as process:
            out, said = await process.communicate(given.encode())
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), said.decode())

    @asynccontextmanager
    async def started(
        self, *arguments: str, **environment: str
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        """One that goes on until the block ends. An empty variable is none."""
        told = {**self.environment, **environment}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "queen",
            *arguments,
            env={name: value for name, value in told.items() if value},
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
