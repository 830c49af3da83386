"""One of several databases is restored to a state before a change of a spread queue."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.cluster.operators.backups import Backups, found, repair
from tests.cluster.operators.operations import execute, value
from tests.cluster.places import NAMES, named
from tests.support.server import Server, until

PARTITION = {name: named(name, 1)[0] for name in NAMES}


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases) as server:
        yield server


async def configure(server: Server, **options: Any) -> None:  # noqa: ANN401 - JSON
    body = {"queue": "orders", "options": {"placement": "spread", **options}}
    assert (await server.post("/configure", body)).status == 200


async def push(server: Server, value: int) -> None:
    items = [
        {"queue": "orders", "partition": each, "payload": value} for each in PARTITION.values()
    ]
    assert (await server.post("/push", {"items": items})).status == 201


async def popped(server: Server, group: str) -> dict[str, list[int]]:
    """The values that a new or known group gets, by database."""
    values: dict[str, list[int]] = {name: [] for name in NAMES}
    query = {"consumerGroup": group, "subscriptionMode": "all", "autoAck": "true", "batch": 100}
    for _ in range(9):
        reply = await server.get("/pop/queue/orders", partitions=10, **query)
        for each in reply.body["messages"] if reply.status == 200 else ():
            name = next(n for n, p in PARTITION.items() if p == each["partition"])
            values[name].append(each["data"])
    return values


async def copied(databases: dict[str, str]) -> None:
    """Wait until all databases have the newest definitions."""

    async def is_copied() -> bool:
        return await value(databases["main"], "select count(*) from queen.outdated") == 0

    await until(is_copied, seconds=60)


async def lease_seconds(server: Server) -> int:
    return (await server.get("/resources/queues/orders")).body["options"]["leaseTime"]


async def test_a_queue_that_the_first_database_lost_is_taken_from_the_others(
    backups: Backups, server: Server, shell: Shell
) -> None:
    await backups.take("main")
    await configure(server, leaseTime=77)
    await push(server, 1)
    assert await popped(server, "billing") == {name: [1] for name in NAMES}
    await backups.restore("main")

    problem = (await found(shell))["queue orders"]
    assert problem.startswith("is spread, and main lacks changes that t")
    await repair(shell)

    await server.start()
    await push(server, 2)
    # Those of the restored database are lost. The others continue where the group was.
    assert await popped(server, "billing") == {name: [2] for name in NAMES}
    assert await lease_seconds(server) == 77


@pytest.mark.parametrize("restored", ["main", "two"])
async def test_a_change_of_a_queue_reaches_all_databases(
    backups: Backups, server: Server, shell: Shell, databases: dict[str, str], restored: str
) -> None:
    await configure(server, leaseTime=10)
    await push(server, 1)
    await backups.take(restored)
    await configure(server, leaseTime=77)
    await popped(server, "billing")
    await copied(databases)
    await backups.restore(restored)

    problem = (await found(shell))["queue orders"]
    assert problem.startswith(f"is spread, and {restored} lacks changes that ")
    await repair(shell)

    await server.start()
    assert await lease_seconds(server) == 77
    await push(server, 2)

    async def is_equal() -> bool:
        return await found(shell) == {}

    await until(is_equal, seconds=30)
    values = await popped(server, "billing")
    assert values.pop(restored) == [1, 2]
    assert values == {name: [2] for name in NAMES if name != restored}


async def test_an_option_that_was_changed_after_the_restore_is_kept(
    backups: Backups, server: Server, shell: Shell
) -> None:
    """The revisions are equal, and the first database decides."""
    await configure(server, leaseTime=10)
    await backups.take("main")
    await configure(server, leaseTime=77)
    await backups.restore("main")
    await server.start()
    await configure(server, leaseTime=55)
    await server.stop()

    assert "queue orders" in await found(shell)
    await repair(shell)
    await server.start()
    assert await lease_seconds(server) == 55


async def test_the_newest_of_several_definitions_counts(
    backups: Backups, server: Server, shell: Shell, databases: dict[str, str]
) -> None:
    """Two databases were restored, to different states."""
    await configure(server, leaseTime=10)
    await push(server, 1)
    await backups.take("main")
    await configure(server, leaseTime=20)
    await copied(databases)
    await backups.take("two")
    await configure(server, leaseTime=77)
    assert await popped(server, "billing") == {name: [1] for name in NAMES}
    await copied(databases)
    await backups.restore("two")
    await backups.restore("main")

    await repair(shell)
    await server.start()
    assert await lease_seconds(server) == 77
    await push(server, 2)

    async def is_equal() -> bool:
        return await found(shell) == {}

    await until(is_equal, seconds=30)
    assert await popped(server, "billing") == {"main": [1, 2], "two": [1, 2], "three": [2]}


async def test_a_database_that_is_absent_may_have_the_newest_definition(
    backups: Backups, server: Server, shell: Shell, databases: dict[str, str]
) -> None:
    await configure(server, leaseTime=10)
    await backups.take("main")
    await configure(server, leaseTime=77)
    await copied(databases)
    await backups.restore("main")
    names = shell.environment["QUEEN_DATABASES"]
    shell.environment["QUEEN_DATABASES"] = names.replace(
        databases["three"], "postgresql:///?host=/"
    )

    await shell.run("shard", "doctor", "--repair", "--yes", "-o", "json")

    assert "queue orders" in await found(shell)


async def test_a_new_database_may_lack_queues_that_it_has_not_needed(
    server: Server, shell: Shell, databases: dict[str, str]
) -> None:
    await configure(server)
    await copied(databases)
    for table in ("definitions", "groups", "queues"):
        await execute(databases["two"], f"delete from queen.{table}")
    assert await found(shell) == {}
