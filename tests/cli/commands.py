"""Runs `queen` as a person would."""

import asyncio
import os

from tests.support.prefork import SOURCE, Ended, run_queen


async def queen(*arguments: str, dsn: str, **environment: str) -> Ended:
    """Run one command to its end."""
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(SOURCE),
        "DATABASE_URL": dsn,
        "COLUMNS": "200",
        **environment,
    }
    return await asyncio.to_thread(run_queen, *arguments, environment=variables)
