"""Operators pin partitions of spread queues."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from queen import Queen, errors
from tests.cli.shell import Shell
from tests.cluster.places import named
from tests.support.server import Server

HOT, OTHER = named("main", 2)


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases) as server:
        body = {"queue": "events", "options": {"placement": "spread"}}
        assert (await server.post("/configure", body)).status == 200
        yield server


async def push(server: Server, value: int) -> None:
    items = [{"queue": "events", "partition": each, "payload": value} for each in (HOT, OTHER)]
    reply = await server.post("/push", {"items": items})
    assert reply.status == 201, reply.body
    assert {each["status"] for each in reply.body["messages"]} == {"queued"}


async def pop(server: Server, partition: str) -> list[int]:
    reply = await server.get(f"/pop/queue/events/partition/{partition}", batch=100, autoAck="true")
    return [each["data"] for each in reply.body["messages"]] if reply.status == 200 else []


async def test_a_pin_is_known_to_other_servers_also_to_one_that_was_stopped(
    server: Server, databases: dict[str, str], shell: Shell
) -> None:
    async with Server(databases) as other:
        os.kill(other.pid, signal.SIGSTOP)
        ended = await shell.run("shard", "pin", "events", HOT, "two", "--wait")
        assert ended.code == 0, ended.err
        assert f"pinned {HOT} of events to slot 960 in main" in ended.err
        assert "done: moved 1 of 1 slot" in ended.err
        pushing = asyncio.create_task(push(other, 1))
        os.kill(other.pid, signal.SIGCONT)
        await pushing
        await push(server, 2)

        listed = await shell.run("shard", "ls", "--pins")
        assert [each.split() for each in listed.out.splitlines()] == [
            ["queue", "partition", "slot", "database", "ready"],
            ["events", HOT, "960", "two", "yes"],
        ]
        for each, partition in ((other, HOT), (server, OTHER)):
            assert await pop(each, partition) == [1, 2]
    slots = (await server.get("/shards")).body["slots"]
    assert [each["slot"] for each in slots if each["database"] == "two"] == [960]


async def test_pins_are_removed_before_the_first_message(server: Server, shell: Shell) -> None:
    async with Queen(server.base_url) as queen:
        assert (await queen.admin.pin("events", HOT, "main")).operation is None
        ended = await shell.run("shard", "unpin", "events", HOT)
        assert (ended.code, ended.err) == (0, f"unpinned {HOT} of events\n")
        assert await queen.admin.pins() == []

        pinned = await queen.admin.pin("events", HOT, "main")
        await push(server, 1)
        with pytest.raises(errors.Conflict, match="exists in database main"):
            await queen.admin.unpin("events", HOT)
        with pytest.raises(errors.Conflict, match="exists in database main"):
            await queen.admin.pin("events", OTHER, "two")
        assert await queen.admin.pins() == [pinned.pin]


async def test_a_pin_and_its_removal_over_http(server: Server) -> None:
    pinned = await server.post(
        "/shards/pins", {"queue": "events", "partition": HOT, "database": "main"}
    )
    assert (pinned.status, pinned.body["pin"]["slot"]) == (201, 960)

    unpinned = await server.post("/shards/unpin", {"queue": "events", "partition": HOT})
    assert unpinned.status == 200
    assert (await server.get("/shards/pins")).body["pins"] == []
