"""`queen dev` as a process."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


async def started(*arguments: str) -> tuple[asyncio.subprocess.Process, str]:
    """The process, and the URL of the dashboard, which it prints first."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "queen",
        "dev",
        *arguments,
        "--port",
        "0",
        env={**environment, "PYTHONPATH": str(SOURCE)},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = ""
    async with asyncio.timeout(40):
        while (found := re.search(r"Dashboard +(\S+)\n", said)) is None:
            line = await process.stderr.readline()
            assert line, f"ended:\n{said}"
            said += line.decode()
    assert said.strip().startswith("Dashboard "), said
    return process, found[1]


async def stopped(process: asyncio.subprocess.Process) -> int:
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(40):
        await process.communicate()
    assert process.returncode is not None
    return process.returncode
