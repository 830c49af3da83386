"""Run `queen` as a user would."""

import asyncio
import os

from tests.support.prefork import SOURCE, Ended, run_queen


async def queen(*arguments: str, dsn: str, **environment: str) -> Ended:
    """Run one command to its end."""

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
