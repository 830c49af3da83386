"""Operators see how far moves are, and how long they took."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.cluster.operators.operations import (
    add_partitions,
    begin,
    blocked,
    ended,
    execute,
    has_state,
    value,
)
from tests.cluster.places import ONE, slot_of
from tests.support.server import Server, until

SLOT = slot_of(ONE)


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases) as server:
        await add_partitions(server, ONE)
        yield server


async def progress(server: Server) -> dict[str, Any] | None:
    """The progress of the slot's move."""
    reply = await server.get("/shards")
    (found,) = (each["move"] for each in reply.body["slots"] if each["slot"] == SLOT)
    return found


async def seconds(server: Server, phase: str) -> dict[str, float]:
    """How often moves had a phase, and how long it took in total. Empty before the first move."""
    lines = (await server.get("/metrics")).body.decode().splitlines()
    found = [each.split() for each in lines if f'{{phase="{phase}"}}' in each]
    return {name.partition("{")[0].rpartition("_")[2]: float(number) for name, number in found}


async def listings(server: Server) -> int:
    """How often the slots were listed."""
    name = 'queen_http_request_seconds_count{route="/api/v1/shards",method="GET",status="200"}'
    lines = (await server.get("/metrics")).body.decode().splitlines()
    return sum(int(each.split()[-1]) for each in lines if each.startswith(name))


async def test_a_slot_shows_how_much_of_it_is_copied(
    server: Server, databases: dict[str, str], tmp_path: Path
) -> None:
    assert await progress(server) is None
    size = "select sum(pg_column_size(body)) from queen.segments"
    stored = await value(databases["main"], size)
    async with blocked(databases["two"]):
        id_ = await begin(server, queue=ONE, to="two")
        await until(lambda: has_state(databases["main"], SLOT, "leaving"))

        assert await progress(server) == {
            "to": "two",
            "operation": id_,
            "copiedBytes": stored,
            "totalBytes": stored,
        }
        listed = await Shell(server, tmp_path).run("shard", "ls", "--slots")
        assert "to two, 99 % copied" in listed.out
        (running,) = (await server.get("/shards")).body["operations"]
        assert (running["id"], running["done"], running["total"]) == (id_, 0, 1)
    await ended(server, id_)

    assert await progress(server) is None
    assert (await server.get("/shards")).body["operations"] == []


async def test_a_slot_that_waits_for_its_move_shows_it(
    server: Server, databases: dict[str, str]
) -> None:
    await execute(
        databases["main"], f"select queen.open_archive('reader', '{ONE}', 'parquet', '/lake')"
    )
    reply = await server.post("/shards/drain", {"database": "main"})
    id_ = reply.body["operation"]["id"]

    async def waits() -> bool:
        (running,) = (await server.get("/shards")).body["operations"]
        return running["error"] == f"archive reader reads queue {ONE}"

    await until(waits, seconds=20)
    found = await progress(server)
    assert found is not None
    assert (found["operation"], found["copiedBytes"]) == (id_, 0)


async def test_a_copy_without_an_operation_is_shown(
    server: Server, databases: dict[str, str]
) -> None:
    await execute(
        databases["main"],
        f"select queen.copy_slot({SLOT}::smallint, 'two', gen_random_uuid())",
    )

    assert await progress(server) == {
        "to": "two",
        "operation": None,
        "copiedBytes": 0,
        "totalBytes": None,
    }


async def test_the_metrics_have_the_duration_of_moves(server: Server) -> None:
    assert await seconds(server, "copy") == {}

    for target in ("two", "main"):
        await ended(server, await begin(server, queue=ONE, to=target))

    copy, hand_over = await seconds(server, "copy"), await seconds(server, "hand_over")
    assert (copy["count"], hand_over["count"]) == (2, 2)
    assert 0 < hand_over["sum"] < 8
    assert copy["sum"] > 0


async def test_a_command_that_waits_prints_the_progress(
    server: Server, databases: dict[str, str], tmp_path: Path
) -> None:
    async with blocked(databases["two"]):
        moving = asyncio.create_task(
            Shell(server, tmp_path).run("shard", "move", "--queue", ONE, "--to", "two", "--wait")
        )
        await until(lambda: has_state(databases["main"], SLOT, "leaving"), seconds=30)
        asked = await listings(server)

        async def has_asked_twice() -> bool:
            return await listings(server) >= asked + 2

        await until(has_asked_twice, seconds=30)
    ended = await moving
    assert f"moved 0 of 1, slot {SLOT}: 99 % copied" in ended.err
