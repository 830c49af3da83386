"""The load of databases is made even."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from queen import Queen, errors
from queen.wire.resources import Rebalanced
from tests.cli.shell import Shell
from tests.cluster.operators.operations import blocked, database_of, ended, execute
from tests.cluster.places import NAMES, named, slot_of
from tests.support.server import Server, until

FAST = {"QUEEN_COUNTERS_FLUSH_SECONDS": "0.1", "QUEEN_SAMPLE_SECONDS": "0.1"}
PUSHED = dict(zip(named("main", 4), (40, 30, 20, 10), strict=True))
LARGE, *_ = PUSHED
"""The queue with the most messages. All are in the first database."""


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases, FAST) as server:
        for queue, count in PUSHED.items():
            items = [{"queue": queue, "payload": "x" * 1_000}] * count
            assert (await server.post("/push", {"items": items})).status == 201

        async def is_measured() -> bool:
            slots = (await server.get("/shards")).body["slots"]
            return len(slots) == 4 and all(each["bytesPerSecond"] for each in slots)

        await until(is_measured, seconds=20)
        yield server


async def planned(server: Server) -> dict[str, Any]:
    reply = await server.post("/shards/rebalance", {"dryRun": True})
    assert reply.status == 200, reply.body
    return reply.body


def places(plan: Rebalanced) -> list[tuple[int, str]]:
    """The slots of a plan and their new databases."""
    return [(each.slot, each.to) for each in plan.moves]


async def test_a_dry_run_moves_nothing(server: Server) -> None:
    found = await planned(server)

    assert found["operation"] is None
    assert {each["reason"] for each in found["moves"]} == {"bytesPerSecond"}
    assert {each["slot"] for each in found["moves"]} < {slot_of(each) for each in PUSHED}
    before, after = (
        {each["name"]: each[when]["bytesPerSecond"] for each in found["databases"]}
        for when in ("before", "after")
    )
    assert before["two"] == before["three"] == 0
    assert sum(after.values()) == pytest.approx(before["main"], rel=0.01)
    assert max(after.values()) < 0.45 * before["main"]
    assert (await server.get("/shards")).body["operations"] == []
    assert {await database_of(server, queue) for queue in PUSHED} == {"main"}


async def test_slots_move_until_the_load_is_even(server: Server, tmp_path: Path) -> None:
    shell = Shell(server, tmp_path)
    dry = await shell.run("shard", "rebalance", "--dry-run")
    assert dry.code == 0, dry.err
    assert "main has more bytes per second than three" in dry.out
    assert " → " in dry.out

    moved = await shell.run("shard", "rebalance", "--yes", "--wait", "-o", "json")

    assert moved.code == 0, moved.err
    assert moved.json["operation"]["kind"] == "move_slots"
    assert f"done: moved {len(moved.json['moves'])} of" in moved.err
    for move in moved.json["moves"]:
        for queue in move["queues"]:
            assert await database_of(server, queue) == move["to"]
    for queue, count in PUSHED.items():
        reply = await server.get(f"/pop/queue/{queue}", batch=100, autoAck="true")
        assert len(reply.body["messages"]) == count
    again = await shell.run("shard", "rebalance", "--yes", "--wait")
    assert "no slot needs to move" in again.err


async def test_a_slot_that_can_not_move_stays(server: Server, databases: dict[str, str]) -> None:
    await execute(
        databases["main"],
        "select queen.open_archive('reader-' || name, name, 'parquet', '/lake')"
        f" from queen.queues where name <> '{LARGE}'",
    )

    found = await planned(server)

    assert [each["slot"] for each in found["moves"]] == [slot_of(LARGE)]


async def test_a_rebalance_waits_for_the_last_one(
    server: Server, databases: dict[str, str]
) -> None:
    async with blocked(databases["three"]), Queen(server.base_url) as queen:
        begun = await queen.admin.rebalance()
        assert begun.operation is not None

        busy = await server.post("/shards/rebalance", {"dryRun": True})
        assert (busy.status, busy.code) == (409, "slot_busy")
        assert f"operation {begun.operation.id} moves slots" in busy.body["detail"]
    await ended(server, begun.operation.id)
    assert {each.to for each in begun.moves} == {*NAMES} - {"main"}


async def test_confirmed_moves_are_made_although_the_load_has_changed(server: Server) -> None:
    async with Queen(server.base_url) as queen:
        plan = await queen.admin.rebalance(dry_run=True)
        *_, small = PUSHED
        items = [{"queue": small, "payload": "x" * 1_000}] * 500
        assert (await server.post("/push", {"items": items})).status == 201

        async def is_changed() -> bool:
            return places(await queen.admin.rebalance(dry_run=True)) != places(plan)

        await until(is_changed, seconds=20)
        begun = await queen.admin.rebalance(moves=plan.moves)

        assert places(begun) == places(plan)
        assert begun.operation is not None
        await ended(server, begun.operation.id)
        for move in plan.moves:
            assert {await database_of(server, each) for each in move.queues} == {move.to}
        with pytest.raises(errors.Conflict, match="is not in database main any more"):
            await queen.admin.rebalance(moves=plan.moves)


@pytest.mark.parametrize(
    ("change", "status"),
    [({"to": "main"}, 400), ({"to": "nowhere"}, 404), ({"slot": 7}, 409)],
)
async def test_moves_that_no_plan_has_are_rejected(
    server: Server, change: dict[str, Any], status: int
) -> None:
    move = (await planned(server))["moves"][0]

    assert (await server.post("/shards/rebalance", {"moves": [move, move]})).status == 400
    reply = await server.post("/shards/rebalance", {"moves": [{**move, **change}]})

    assert reply.status == status
    assert (await server.get("/shards")).body["operations"] == []


async def test_the_command_asks_before_it_moves_slots(server: Server, tmp_path: Path) -> None:
    shell = Shell(server, tmp_path)

    asked = await shell.run("shard", "rebalance")

    assert asked.code == 2
    assert "main has more bytes per second" in asked.out
    assert "add --yes to confirm" in asked.err
    assert (await server.get("/shards")).body["operations"] == []


async def test_one_database_is_not_rebalanced(dsn: str) -> None:
    async with Server(dsn) as server:
        reply = await server.post("/shards/rebalance", {})
        assert reply.status == 400
        assert "has one database" in reply.body["detail"]
