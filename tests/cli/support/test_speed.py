"""The command starts fast: slow modules are imported on first use."""

import os
import resource
import statistics
import subprocess
import sys

from tests.cli.commands import SOURCE

ROUNDS = 5
MARGIN = 1.6
"""Tolerance, because other tests run at the same time and share the processor's caches."""


def _seconds(*arguments: str) -> float:
    """User and system time of a process, as a median of several runs."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *arguments],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return statistics.median(once() for _ in range(ROUNDS))


def test_help_takes_a_quarter_of_a_second() -> None:
    assert _seconds("-m", "queen", "--help") < 0.25 * MARGIN


def test_an_import_is_fast() -> None:
    bare = _seconds("-c", "pass")
    assert _seconds("-c", "import queen") - bare < 0.150 * MARGIN


def _loaded(*arguments: str) -> set[str]:
    code = (
        "import sys, contextlib\n"
        "from queen.cli.main import main\n"
        f"sys.argv = ['queen', *{arguments!r}]\n"
        "with contextlib.suppress(SystemExit):\n"
        "    main()\n"
        "print('loaded', *sys.modules)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(answer.stdout.splitlines()[-1].split()[1:])


def test_help_loads_neither_client_nor_server_nor_rich() -> None:
    heavy = {"aiohttp", "rich", "asyncpg", "starlette", "queen.client.client", "asyncio"}
    assert not heavy & _loaded("--help")
    assert not {"aiohttp", "rich", "asyncpg"} & _loaded("queue", "--help")
    assert not {"aiohttp", "asyncpg", "rich"} & _loaded("errors", "lease_lost")
