"""Operators move slots between databases."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from queen import Message, Queen
from queen.store.cluster.joining import join
from tests.cli.shell import Shell
from tests.cluster.moves import Members
from tests.cluster.operators.operations import (
    add_partitions,
    begin,
    blocked,
    database_of,
    ended,
    execute,
    has_no_mover,
    has_state,
    is_copied,
    operation,
    value,
)
from tests.cluster.places import NAMES, ONE, THREE, TWO, slot_of
from tests.support.postgres import Server as PostgresServer
from tests.support.prefork import Ended
from tests.support.server import Server, until


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases) as server:
        for queue in (ONE, TWO, THREE):
            await push(server, queue, 0)
        yield server


@pytest.fixture
def shell(server: Server, databases: dict[str, str], tmp_path: Path) -> Shell:
    shell = Shell(server, tmp_path)
    shell.environment["QUEEN_DATABASES"] = server.environment["QUEEN_DATABASES"]
    shell.environment["COLUMNS"] = "200"
    return shell


async def push(server: Server, queue: str, value: int) -> None:
    reply = await server.post("/push", {"items": [{"queue": queue, "payload": value}]})
    assert reply.status == 201, reply.body


async def shard(shell: Shell, *arguments: str) -> Ended:
    return await shell.run("shard", *arguments)


async def test_a_queue_moves_while_clients_use_it(server: Server, shell: Shell) -> None:
    found: list[int] = []

    async def handle(messages: list[Message[int]]) -> None:
        found.extend(each.data for each in messages)

    async with Queen(server.base_url) as queen:
        running = queen.queue(ONE).batch(5).start(handle)
        n = 0
        for target in ("two", "three", "main"):
            moving = asyncio.create_task(
                shard(shell, "move", "--queue", ONE, "--to", target, "--wait")
            )
            while not moving.done():
                n += 1
                await queen.queue(ONE).push([{"data": n}])
            ended = await moving
            assert ended.code == 0, ended.err
            assert "done: moved 1 of 1 slot" in ended.err
            assert await database_of(server, ONE) == target

        async def is_complete() -> bool:
            return len(found) > n

        await until(is_complete, seconds=20)
        await running.stop()
    assert found == [*range(n + 1)]
    assert "error" not in server.log


async def test_an_archive_delays_a_move(
    server: Server, shell: Shell, databases: dict[str, str]
) -> None:
    """The command shows it at once, and the operation as long as it waits."""
    await execute(
        databases["main"], f"select queen.open_archive('reader', '{ONE}', 'parquet', '/lake')"
    )

    begun = await shard(shell, "move", "--queue", ONE, "--to", "two")

    assert begun.code == 0
    assert f"it waits: archive reader reads queue {ONE}" in begun.err
    listed = await shard(shell, "ls", "--slots", "-o", "json")
    (row,) = [each for each in listed.json if ONE in each["queues"]]
    assert row["hindrances"] == [f"archive reader reads queue {ONE}"]
    id_ = begun.err.split()[1]

    async def waits() -> bool:
        return (await operation(server, id_))["error"] == f"archive reader reads queue {ONE}"

    await until(waits)
    for path, body in (
        ("moves", {"queue": ONE, "to": "three"}),
        ("drain", {"database": "main"}),
        ("drain", {"database": "two"}),
    ):
        busy = await server.post(f"/shards/{path}", body)
        assert (busy.status, busy.code) == (409, "slot_busy")
    await execute(databases["main"], "select queen.drop_archive('reader')")
    assert (await ended(server, id_))["error"] is None
    assert await database_of(server, ONE) == "two"


async def test_another_server_finishes_a_move(server: Server, databases: dict[str, str]) -> None:
    """The first one dies while it hands the slot over."""
    slot = slot_of(ONE)
    await add_partitions(server, ONE)
    async with Server(databases) as other:
        async with blocked(databases["two"]):
            id_ = await begin(server, queue=ONE, to="two")
            await until(lambda: has_state(databases["main"], slot, "leaving"))
            server.kill()

        await ended(other, id_)
        assert await database_of(other, ONE) == "two"
        reply = await other.get(f"/pop/queue/{ONE}", batch=100, autoAck="true")
        assert reply.status == 200
        async with Members.connected(databases) as members:
            assert await members.owners(slot) == ["two"]
        assert not await is_copied(databases["main"], slot)


async def test_a_server_that_stops_ends_its_step(server: Server, databases: dict[str, str]) -> None:
    slot = slot_of(ONE)
    await add_partitions(server, ONE)
    async with blocked(databases["two"]):
        await begin(server, queue=ONE, to="two")
        await until(lambda: has_state(databases["main"], slot, "leaving"))
        assert await server.stop() == 0
        assert await has_state(databases["main"], slot, "owned")


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_an_interrupted_move_of_empty_slots_is_completed(
    server: Server, databases: dict[str, str], is_cancelled: bool
) -> None:
    async with Members.connected(databases) as members:
        query = "select array_agg(slot) from queen.slots where slot between 960 and 999"
        slots = await members.value("main", query)
        await members.value("main", "select queen.leave_slots($1, 'two')", slots)
        async with blocked(databases["two"], "lock table queen.slots in exclusive mode"):
            id_ = await begin(server, slot=960, to="two")
            if is_cancelled:  # By another process, because this one would end its step.
                await server.delete(f"/operations/{id_}")
                server.kill()
        if is_cancelled:
            await server.start()
        await ended(server, id_, "cancelled" if is_cancelled else "done")

        for slot in slots:
            assert await members.owners(slot) == ["two"]


@pytest.mark.parametrize("target", ["two", "three"])
async def test_a_cancelled_move_leaves_nothing(
    server: Server, shell: Shell, databases: dict[str, str], target: str
) -> None:
    """It can be repeated, also to another database."""
    slot = slot_of(ONE)
    await add_partitions(server, ONE)
    async with blocked(databases["two"]):
        id_ = await begin(server, queue=ONE, to="two")
        await until(lambda: is_copied(databases["two"], slot))
        assert (await shell.run("operation", "cancel", id_)).code == 0
        await ended(server, id_, "cancelled")

    assert await database_of(server, ONE) == "main"
    query = f"select state = 'owned' and copied_to is null from queen.slots where slot = {slot}"
    assert await value(databases["main"], query)
    assert not await is_copied(databases["two"], slot)
    assert await value(databases["two"], "select count(*) from queen.arrivals") == 0
    await ended(server, await begin(server, queue=ONE, to=target))
    assert await database_of(server, ONE) == target


async def test_a_move_erases_what_an_operation_that_failed_has_left(
    server: Server, shell: Shell, databases: dict[str, str]
) -> None:
    slot = slot_of(ONE)
    await add_partitions(server, ONE)
    async with blocked(databases["two"]):
        id_ = await begin(server, queue=ONE, to="two")
        await until(lambda: is_copied(databases["two"], slot))
        await execute(
            databases["main"],
            "update queen.operations set state = 'failed', finished_at = now(),"
            f" error = 'a test' where id = {id_}",
        )
        await until(lambda: has_no_mover(databases["two"]))
    assert await has_state(databases["main"], slot, "owned")
    found = await shard(shell, "doctor", "-o", "json")
    assert found.code == 1
    assert "two has an unfinished copy" in found.out

    await ended(server, await begin(server, queue=ONE, to="three"))

    assert not await is_copied(databases["two"], slot)
    assert (await shard(shell, "doctor")).code == 0


async def test_the_queues_of_a_namespace_move_together(server: Server, shell: Shell) -> None:
    for queue in ("a", "b"):
        reply = await server.post("/configure", {"queue": queue, "namespace": "shop"})
        assert reply.status == 200, reply.body
    source = await database_of(server, "a")
    target = next(name for name in NAMES if name != source)

    moved = await shard(shell, "move", "--namespace", "shop", "--to", target, "--wait")

    assert moved.code == 0, moved.err
    assert [await database_of(server, queue) for queue in ("a", "b")] == [target, target]


async def test_a_database_is_drained_and_removed(
    server: Server, shell: Shell, databases: dict[str, str]
) -> None:
    early = await shard(shell, "rm", "three", "--yes")
    assert early.code != 0
    assert "queen shard drain" in early.err

    drained = await shard(shell, "drain", "three", "--wait")

    assert drained.code == 0, drained.err
    listed = await shard(shell, "ls", "-o", "json")
    slots = {row["name"]: row["slots"] for row in listed.json}
    assert slots["three"] == 0
    assert sum(slots.values()) == 1024
    assert abs(slots["main"] - slots["two"]) < 70
    assert await database_of(server, THREE) in ("main", "two")
    assert (await shard(shell, "doctor")).code == 0
    removed = await shard(shell, "rm", "three", "--yes")
    assert removed.code == 0, removed.err
    assert (await server.post("/shards/moves", {"slot": 1, "to": "three"})).status == 404
    assert (await server.delete("/shards/three")).status == 404

    await server.stop()
    with pytest.raises(RuntimeError, match="three was removed"):
        await server.start()
    left = {name: dsn for name, dsn in databases.items() if name != "three"}
    async with Server(left) as after:
        for queue in (ONE, TWO, THREE):
            await push(after, queue, 1)
            reply = await after.get(f"/pop/queue/{queue}", batch=10, autoAck="true")
            assert [each["data"] for each in reply.body["messages"]] == [0, 1]


async def test_the_metrics_have_the_slots_of_each_database(server: Server) -> None:
    async def has_slots() -> bool:
        text = (await server.get("/metrics")).body.decode()
        line = 'queen_slots{database="two",state="owned"} 320'
        return line in text

    await until(has_slots, seconds=20)


async def test_the_number_of_a_removed_database_is_not_used_again(
    server: Server, databases: dict[str, str], postgres: PostgresServer
) -> None:
    reply = await server.post("/shards/drain", {"database": "three"})
    await ended(server, reply.body["operation"]["id"])
    assert (await server.delete("/shards/three")).status == 200
    database = f"test_{uuid4().hex}"
    four = postgres.create_database(database)
    try:
        await join({**{name: databases[name] for name in ("main", "two")}, "four": four})
        assert await value(four, "select number from queen.databases where is_here") == 3
    finally:
        postgres.drop_database(database)


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("moves", {"queue": ONE, "to": "four"}, 404, "database four does not exist"),
        ("moves", {"queue": ONE, "to": "main"}, 400, "is in database main already"),
        ("moves", {"queue": "absent", "to": "two"}, 404, "queue absent does not exist"),
        ("moves", {"namespace": "absent", "to": "two"}, 404, "has no queues"),
        ("moves", {"to": "two"}, 400, "exactly one of"),
        ("moves", {"to": "two", "slot": 1, "queue": ONE}, 400, "exactly one of"),
        ("moves", {"to": "two", "slot": 1024}, 400, "slot"),
        ("drain", {"database": "four"}, 404, "database four does not exist"),
    ],
)
async def test_moves_that_are_impossible_are_rejected(
    server: Server, path: str, body: dict[str, Any], status: int, text: str
) -> None:
    reply = await server.post(f"/shards/{path}", body)
    assert reply.status == status
    assert text in reply.body["detail"]
    assert (await server.delete("/shards/main")).status == 400


async def test_one_database_has_no_moves(dsn: str) -> None:
    async with Server(dsn) as server:
        await push(server, "orders", 1)
        reply = await server.post("/shards/moves", {"queue": "orders", "to": "two"})
        assert reply.status == 400
        assert "has one database" in reply.body["detail"]
        listed = (await server.get("/shards")).body
        assert [(each["name"], each["slots"]) for each in listed["databases"]] == [("main", 1024)]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"main": "state = 'gone', moved_to = 'two'"}, "has no owner"),
        ({"two": "state = 'owned', moved_to = null"}, "has several owners: main"),
        ({"main": "state = 'leaving', moved_to = 'two'"}, "is leaving main for two"),
        (
            {
                "main": "state = 'gone', moved_to = 'three'",
                "two": "state = 'owned', moved_to = null, epoch = 9",
            },
            "is in two, but main records three",
        ),
    ],
)
async def test_doctor_finds_what_differs(
    databases: dict[str, str], shell: Shell, changes: Mapping[str, str], text: str
) -> None:
    for name, change in changes.items():
        await execute(
            databases[name], f"update queen.slots set {change} where slot = {slot_of(ONE)}"
        )

    found = await shard(shell, "doctor", "-o", "json")

    assert found.code > 0
    assert [each["check"] for each in found.json] == [f"slot {slot_of(ONE)}"]
    assert text in found.json[0]["found"]
