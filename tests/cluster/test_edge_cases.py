"""Cases that divided requests and joins got wrong at first."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from queen import errors
from queen.cluster.cluster import Cluster
from queen.codec.slots import hashed
from queen.engine.engine import Engine
from queen.store.cluster.joining import join, missing
from queen.store.migrations import connected, migrate
from queen.wire.messages import Acknowledgment, PopRequest
from tests.cluster.places import NAMES, ONE, THREE, TWO, home
from tests.engine.helpers import item, push, values
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server

QUEUES = (ONE, TWO, THREE)


@pytest.fixture
async def guarded(empty: dict[str, str]) -> AsyncIterator[Server]:
    """A server with API keys."""
    async with Server(empty, KEYS) as server:
        yield server


async def test_scoped_keys_find_their_objects_in_every_database(
    guarded: Server, empty: dict[str, str]
) -> None:
    admin = Caller(guarded, await make_key(empty["main"]))
    for queue in QUEUES:
        scopes = [{"queue": queue}]
        key = await make_key(empty["main"], scopes=scopes, name=queue)
        owner = Caller(guarded, key)
        body = {"name": f"s-{queue}", "queue": queue, "cron": "0 3 * * *", "payload": 1}
        await admin.post("/configure", {"queue": queue})
        assert (await owner.post("/schedules", body)).status == 200
        foreign = next(each for each in QUEUES if each != queue)

        assert (await owner.get(f"/schedules/s-{queue}")).status == 200
        assert (await owner.post(f"/schedules/s-{queue}/pause")).status == 200
        assert (await owner.get(f"/schedules/s-{foreign}")).status == 403
        assert (await owner.get("/schedules/absent")).status == 403
        assert [e["name"] for e in (await owner.get("/schedules")).body["schedules"]] == [
            f"s-{queue}"
        ]


async def test_the_hash_is_the_same_in_sql(cluster: Cluster) -> None:
    for name in ("orders", "émile", "q" * 200):
        found = await cluster.first.store.database.fetch("claim_homes", [name], [""], [None])
        assert found[0]["slot"] == hashed(name)


async def test_an_ambiguous_transaction_id_is_rejected(cluster: Cluster) -> None:
    for queue in (ONE, TWO):
        await cluster.push([item(queue, 1, transaction_id="same")])
        await cluster.pop(PopRequest(queue=queue))

    (result,) = await cluster.acknowledge([Acknowledgment(transaction_id="same")])

    assert (result.success, result.code) == (False, "ambiguous_message")


async def test_a_rejected_push_decides_no_slots(cluster: Cluster) -> None:
    with pytest.raises(errors.CrossShard):
        await cluster.push([item(ONE, 1), item(TWO, 1)], producer_id="p", sequence=1)
    await cluster.push([item("x" * 300, 1), item("\ud800", 1), item(THREE, 1)])

    homes = cluster.first.store.homes
    assert (await homes.find([ONE, TWO, THREE, "x" * 300])).keys() == {THREE}


async def test_queues_join_an_older_namespace(empty: dict[str, str]) -> None:
    space = next(name for name in (f"n{n}" for n in range(99)) if home(name) == "three")
    await migrate(empty["main"])
    async with await Engine.open(empty["main"]) as engine:
        await engine.queues.configure("old", namespace=space)
    await join(empty)
    engines = {name: await Engine.open(dsn) for name, dsn in empty.items()}
    cluster = Cluster(engines)
    await cluster.start()

    assert await cluster.of_new_queue("new", space) is engines["main"]

    for engine in engines.values():
        await engine.close()


async def test_a_rejected_join_leaves_the_first_database_usable(empty: dict[str, str]) -> None:
    await migrate(empty["two"])
    async with await Engine.open(empty["two"]) as engine:
        await push(engine, "orders", 1)
    with pytest.raises(errors.DatabaseUnsafe):
        await join(empty)

    assert await missing({"main": empty["main"]}) == []
    rest = {name: empty[name] for name in ("main", "three")}
    await join(rest)
    assert await missing(rest) == []


async def test_swapped_urls_are_rejected(databases: dict[str, str]) -> None:
    swapped = {**databases, "two": databases["three"], "three": databases["two"]}

    with pytest.raises(errors.DatabaseUnsafe, match="leads to database three"):
        await missing(swapped)


async def test_an_interrupted_join_is_missing(databases: dict[str, str]) -> None:
    async with connected(databases["main"]) as leader:
        slot = await leader.fetchval("select min(slot) from queen.slots where state = 'owned'")
        assert await leader.fetch("select queen.leave_slots(array[$1]::smallint[], 'two')", slot)

    assert await missing(databases) == ["two: join"]


async def test_joined_databases_need_no_lock_at_a_start(databases: dict[str, str]) -> None:
    async with connected(databases["main"]) as busy, busy.transaction():
        await busy.execute(
            "select pg_advisory_xact_lock_shared(hashtext('queen.slot'), s)"
            " from generate_series(0, 1024) s"
        )
        async with asyncio.timeout(5):
            assert await join(databases) == []


async def test_a_server_names_the_database_that_it_lacks(databases: dict[str, str]) -> None:
    engines = {name: await Engine.open(databases[name]) for name in ("main", "two")}
    cluster = Cluster(engines)
    await cluster.start()

    with pytest.raises(errors.SlotMoved, match="database three"):
        await cluster.push([item(THREE, 1)])

    for engine in engines.values():
        await engine.close()


async def test_a_claim_waits_for_a_slot_that_leaves(databases: dict[str, str]) -> None:
    dsn = databases["main"]
    async with connected(dsn) as mover, connected(dsn) as claimer:
        transaction = mover.transaction()
        await transaction.start()
        assert await mover.fetch(
            "select queen.leave_slots(array[$1]::smallint[], 'two')", hashed(ONE)
        )
        claim = asyncio.create_task(
            claimer.fetch("select slot from queen.claim_homes(array[$1], array[''])", ONE)
        )
        await asyncio.sleep(0.3)
        assert not claim.done()
        await transaction.commit()
        await claim


async def test_waiting_pops_share_one_query(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = cluster.first.store.homes
    find, count = homes.find, 0

    async def counted(names: list[str]) -> dict[str, int]:
        nonlocal count
        count += 1
        return await find(names)

    request = PopRequest(queue="absent", wait=True, timeout_seconds=2.5)
    waiting = [asyncio.create_task(cluster.pop(request)) for _ in range(50)]
    await asyncio.sleep(0.5)
    monkeypatch.setattr(homes, "find", counted)
    assert [values(each.deliveries) for each in await asyncio.gather(*waiting)] == [[]] * 50

    assert 1 <= count <= 4


async def test_a_group_of_one_database_is_deleted(empty: dict[str, str]) -> None:
    async with Server(empty) as server:
        for queue in QUEUES:
            await server.post("/push", {"items": [{"queue": queue, "payload": 1}]})
        await server.get(f"/pop/queue/{TWO}", consumerGroup="billing")

        deleted = await server.delete("/consumer-groups/billing")
        again = await server.delete("/consumer-groups/billing")

        assert (deleted.status, deleted.body["queues"]) == (200, [TWO])
        assert again.status == 404


async def test_forged_cursors_are_rejected(empty: dict[str, str]) -> None:
    async with Server(empty) as server:
        await server.post("/push", {"items": [{"queue": ONE, "payload": 1}]})
        for cursor in ("e30", "eyJvdGhlciI6bnVsbH0", "nonsense"):
            reply = await server.get("/resources/queues", cursor=cursor)
            assert (reply.status, reply.code) == (400, "bad_request"), cursor


async def test_series_of_metrics_are_unique(empty: dict[str, str]) -> None:
    async with Server(empty, {"QUEEN_METRICS_PER_OBJECT": "true"}) as server:
        for queue in QUEUES:
            await server.post("/push", {"items": [{"queue": queue, "payload": 1}]})
        await asyncio.sleep(1)
        text = (await server.get("/metrics")).body.decode()

    series = [line.split(" ")[0] for line in text.splitlines() if line and line[0] != "#"]
    assert len(series) == len(set(series))


def test_three_databases() -> None:
    assert {home(queue) for queue in QUEUES} == set(NAMES)
