"""Runs `queen` as a person would."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "src"


class Ended(NamedTuple):
    code: int
    out: str
    err: str


async def queen(*arguments: str, dsn: str, **environment: str) -> Ended:
    """One command to its end."""

    def run() -> Ended:
        ended = subprocess.run(
            [sys.executable, "-m", "queen", *arguments],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(SOURCE),
                "DATABASE_URL": dsn,
                "COLUMNS": "200",
                **environment,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return await asyncio.to_thread(run)
