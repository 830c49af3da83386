"""The runbook "Restore one of several databases": its commands, while the others are in use."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.cluster.operators.backups import Backups, move, of_queue, push, taken
from tests.cluster.operators.operations import execute
from tests.cluster.places import ONE, THREE, TWO, named
from tests.support.server import Server
from tests.support.tutorial import fences

RUNBOOKS = Path(__file__).parents[3] / "docs" / "operate" / "runbooks.md"
LATER, LATEST = named("two", 3)[1:]


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases) as server:
        await server.post("/configure", {"queue": "away", "namespace": LATER})
        for queue in (ONE, TWO, THREE, "away"):
            await push(server, queue, 1)
        yield server


def commands(databases: dict[str, str]) -> list[str]:
    """The commands of the runbook, with the addresses of databases in place of its own."""
    text = RUNBOOKS.read_text("utf-8")
    (section,) = re.findall(
        r"^## Restore one of several databases\n(.*?)^## ", text, flags=re.DOTALL | re.MULTILINE
    )
    blocks = [each.body for each in fences(re.sub(r"(?m)^    ", "", section)) if each.kind == "sh"]
    names = " ".join(f"{name}={dsn}" for name, dsn in databases.items())
    return [re.sub('QUEEN_DATABASES=".*"', f'QUEEN_DATABASES="{names}"', each) for each in blocks]


async def test_nothing_that_was_acknowledged_elsewhere_is_delivered_again(
    backups: Backups, server: Server, databases: dict[str, str], tmp_path: Path
) -> None:
    await backups.take("two")
    await move(server, "away", "main")
    await move(server, ONE, "two")
    await execute(databases["two"], f"select queen.enqueue('{THREE}', '2')")
    for queue in (LATEST, TWO):
        await push(server, queue, 2)
    acknowledged = {each: await of_queue(server, each) for each in (THREE, TWO, LATEST, "away")}
    assert acknowledged == {THREE: [1, 2], TWO: [1, 2], LATEST: [2], "away": [1]}

    backups.lose("two")
    await push(server, "away", 3)
    assert await of_queue(server, "away") == [3]
    restored = databases | {"two": backups.copy("two")}
    shell = Shell(server, tmp_path)
    check, compare, repair = commands(restored)
    codes = [run(check + each, shell) for each in ("", compare, repair)]
    assert codes == [0, 2, 0]

    await server.stop()
    async with Server(restored) as after:
        for queue in (ONE, LATEST):
            await push(after, queue, 4)
        assert await of_queue(after, TWO) == [1]  # As with one database, since the backup.
        assert await of_queue(after, ONE) == [4]
        assert await of_queue(after, LATEST) == [4]
        assert await of_queue(after, "away") == []
        assert await of_queue(after, THREE) == []
        assert await taken(after, namespace=LATER) == []


def run(script: str, shell: Shell) -> int:
    path = f"{Path(sys.executable).parent}:{shell.environment['PATH']}"
    ended = subprocess.run(
        ["bash", "-ec", script],
        env=shell.environment | {"PATH": path},
        stdout=subprocess.DEVNULL,
    )
    return ended.returncode
