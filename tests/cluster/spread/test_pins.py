"""A pinned partition of a spread queue is in a slot of its own, whatever a server knows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from queen import errors
from queen.cluster.cluster import Cluster
from queen.cluster.spread.pins import Pins
from queen.codec.slots import RESERVED, hashed
from queen.engine.engine import Engine
from queen.engine.push.producers import digest_of
from queen.store.cluster.definitions import Definitions
from queen.wire.messages import PopRequest, PushItem
from tests.cluster.moves import Members, finish, run
from tests.cluster.places import NAMES, home, named
from tests.engine.helpers import item, values

HERE, SECOND, THIRD = (named(each, 4) for each in NAMES)
HOT, OTHER = HERE[0], HERE[1]
"""Without a pin, both are in the first database."""


@pytest.fixture
async def databases(databases: dict[str, str]) -> dict[str, str]:
    """The second and the third database own slots for pins, too."""
    async with Members.connected(databases) as members:
        for slot, name in ((960, "two"), (970, "three")):
            await run(members.move(slot, "main", name))
    return databases


@pytest.fixture
async def stale(databases: dict[str, str], cluster: Cluster) -> AsyncIterator[Cluster]:
    """A second server. It knows the queue, and reads the map only when it must."""
    await make(cluster)
    async with AsyncExitStack() as stack:
        engines = {
            name: await stack.enter_async_context(await Engine.open(dsn))
            for name, dsn in databases.items()
        }
        other = Cluster(engines)
        await other.start()
        stack.push_async_callback(other.close)
        await other.push([item("events", "warm", partition=name) for name in (OTHER, SECOND[0])])
        yield other


async def make(cluster: Cluster, queue: str = "events", **options: Any) -> None:  # noqa: ANN401
    engine = await cluster.of_new_queue(queue, is_spread=True)
    row = await engine.queues.configure(queue, {"placement": "spread", **options})
    await cluster.publish(queue, row["id"])


async def rows_of(cluster: Cluster, partition: str) -> dict[str, list[int]]:
    """The slots in which a partition has rows, by database."""
    found: dict[str, list[int]] = {}
    for name, engine in cluster.engines.items():
        pairs = [("events", partition, 0)]
        queue_id = (await engine.queues.one("events"))["id"]
        rows = await engine.store.queues.partitions(queue_id, after=("", -1), prefix="", limit=100)
        if partition in {row["name"] for row in rows}:
            ids = await engine.store.queues.partition_ids(pairs, creates_queues=False)
            found[name] = [(id_ or 0) >> 53 for _, id_ in ids]
    return found


async def pop(cluster: Cluster, **fields: Any) -> list[Any]:  # noqa: ANN401
    request = PopRequest(queue="events", batch=100, partitions=100, auto_ack=True, **fields)
    found: list[Any] = []
    while some := (await cluster.pop(request)).deliveries:
        found += [value for each in some for value in values(each)]
    return found


def numbered(cluster: Cluster, sequence: int, *items: PushItem) -> Any:  # noqa: ANN401
    # As over HTTP, where the digest is that of the whole request.
    return cluster.push(items, producer_id="p", sequence=sequence, digest=digest_of(items))


async def test_a_pinned_partition_is_in_its_database(cluster: Cluster) -> None:
    await make(cluster)
    pin = await Pins(cluster).pin("events", HOT, "three")
    assert (pin.database, pin.slot in RESERVED, pin.is_ready) == ("three", True, True)
    assert await Pins(cluster).pin("events", HOT, "three") == pin

    for value in range(3):
        await cluster.push([item("events", [name, value], partition=name) for name in HERE])

    assert await rows_of(cluster, HOT) == {"three": [pin.slot]}
    assert await pop(cluster, partition=HOT) == [[HOT, value] for value in range(3)]
    found = await pop(cluster)
    for name in HERE[1:]:
        assert [value for partition, value in found if partition == name] == [0, 1, 2]
    assert await Pins(cluster).all() == [pin]
    assert {name for name in HERE if home(name) != "main"} == set()


async def test_a_stale_server_never_stores_a_pinned_partition_elsewhere(
    cluster: Cluster, stale: Cluster
) -> None:
    pin = await Pins(cluster).pin("events", HOT, "two")
    assert stale.owners.pins == {}
    with pytest.raises(errors.SlotMoved):
        await stale.engines["main"].push([item("events", "rejected", partition=HOT)])

    before = stale.following.repeated
    result = await stale.push([item("events", 1, partition=name) for name in (HOT, OTHER)])

    assert {each.status for each in result} == {"queued"}
    assert stale.following.repeated > before
    assert await rows_of(cluster, HOT) == {"two": [pin.slot]}
    assert await pop(stale, partition=HOT) == [1]


async def test_a_stale_server_divides_a_numbered_push_again(
    cluster: Cluster, stale: Cluster
) -> None:
    pin = await Pins(cluster).pin("events", HOT, "two")
    items = [item("events", name, partition=name) for name in (HOT, OTHER, SECOND[1])]
    first = await numbered(stale, 1, *items)
    again = await numbered(cluster, 1, *items)

    assert (first.is_replayed, again.is_replayed) == (False, True)
    assert [each.id for each in first] == [each.id for each in again]
    assert await rows_of(cluster, HOT) == {"two": [pin.slot]}
    assert sorted(await pop(cluster)) == sorted([HOT, OTHER, SECOND[1], "warm", "warm"])


@pytest.mark.parametrize("others", [[], [OTHER]])
async def test_a_pin_in_the_same_database_does_not_repeat_a_numbered_push(
    cluster: Cluster, stale: Cluster, others: list[str]
) -> None:
    """The database accepts the partition from a stale server, but not under another number."""
    pin = await Pins(cluster).pin("events", HOT, "main")
    assert home(HOT) == "main"
    items = [item("events", name, partition=name) for name in (HOT, *others)]
    first = await numbered(stale, 1, *items)
    again = await numbered(cluster, 1, *items)

    assert (first.is_replayed, again.is_replayed) == (False, True)
    assert await rows_of(cluster, HOT) == {"main": [pin.slot]}
    assert sorted(await pop(cluster, partition=HOT)) == [HOT]


async def test_a_stale_server_never_stores_an_unpinned_partition_elsewhere(
    cluster: Cluster, stale: Cluster
) -> None:
    await Pins(stale).pin("events", HOT, "two")
    await cluster.owners.load()
    await Pins(cluster).unpin("events", HOT)
    assert ("events", HOT) in stale.owners.pins
    with pytest.raises(errors.SlotMoved):
        await stale.engines["two"].push([item("events", "rejected", partition=HOT)])

    await stale.push([item("events", 1, partition=HOT)])

    assert await rows_of(cluster, HOT) == {"main": [hashed(HOT)]}
    assert await Pins(cluster).all() == []


async def test_a_repeat_after_an_unpin_never_counts_a_missing_message_as_stored(
    cluster: Cluster, stale: Cluster
) -> None:
    """The first attempt stored a partition of the same slot, but not the pinned one."""
    beside = next(
        name for n in range(100_000) if hashed(name := f"n{n}") == hashed(HOT) and name != HOT
    )
    items = [item("events", name, partition=name) for name in (HOT, beside, THIRD[0])]
    await Pins(stale).pin("events", HOT, "two")
    await stale.engines["two"].close()
    with pytest.raises(errors.OutcomeUnknown):
        await numbered(stale, 1, *items)
    await Pins(cluster).unpin("events", HOT)

    with pytest.raises(errors.SequenceReused):
        await numbered(cluster, 1, *items)
    await numbered(cluster, 2, items[0])

    assert await pop(cluster, partition=HOT) == [HOT]
    assert await pop(cluster, partition=beside) == [beside]


async def test_a_partition_that_exists_stays(cluster: Cluster, stale: Cluster) -> None:
    with pytest.raises(errors.Conflict, match=f"partition {OTHER} of queue events exists in"):
        await Pins(cluster).pin("events", OTHER, "two")
    assert await Pins(cluster).all() == []
    await Pins(cluster).pin("events", HOT, "two")
    await cluster.push([item("events", 1, partition=HOT)])
    with pytest.raises(errors.Conflict, match="exists in database two"):
        await Pins(cluster).unpin("events", HOT)

    await stale.push([item("events", 2, partition=HOT)])
    assert await pop(cluster, partition=HOT) == [1, 2]


async def test_pushes_during_a_pin_wait_for_its_end(cluster: Cluster, stale: Cluster) -> None:
    """The partition is in one slot, whether the pin or the push is first."""
    for n, name in enumerate(named("main", 24)[4:]):

        async def push(name: str = name) -> None:
            for value in range(5):
                await stale.push([item("events", value, partition=name)])

        pinning = Pins(cluster).pin("events", name, "two" if n % 2 else "main")
        pinned, pushed = await asyncio.gather(pinning, push(), return_exceptions=True)
        assert pushed is None
        rows = await rows_of(cluster, name)
        if isinstance(pinned, errors.Conflict):
            assert rows == {"main": [hashed(name)]}
        else:
            assert not isinstance(pinned, BaseException), pinned
            assert rows == {pinned.database: [pinned.slot]}
        assert await pop(cluster, partition=name) == [0, 1, 2, 3, 4]


async def test_a_pin_that_was_interrupted_can_be_repeated(cluster: Cluster, stale: Cluster) -> None:
    queue_id = (await cluster.first.queues.one("events"))["id"]
    slot = next(each for each in RESERVED if cluster.owners.of_slot(each) == "two")
    definitions: Definitions = cluster.first.store.definitions
    await definitions.reserve_pin("events", HOT, [slot])
    await cluster.spreads.publish(queue_id)
    for engine in cluster.engines.values():  # Nor in the slot of the pin.
        with pytest.raises(errors.SlotMoved):
            await engine.push([item("events", "rejected", partition=HOT)])
    stale.following.patience_seconds = 0.2
    result = await asyncio.gather(
        stale.push([item("events", 1, partition=HOT)]), return_exceptions=True
    )
    assert isinstance(result[0], errors.SlotMoved)
    (pin,) = await Pins(cluster).all()
    assert not pin.is_ready

    assert (await Pins(stale).pin("events", HOT, "two")).slot == slot
    await stale.push([item("events", 1, partition=HOT)])
    assert await rows_of(cluster, HOT) == {"two": [slot]}


async def test_requests_that_cannot_succeed_are_rejected(cluster: Cluster) -> None:
    await make(cluster)
    await cluster.push([item("house", 1)])
    pins = Pins(cluster)
    for queue, database, error, says in (
        ("house", "two", errors.BadRequest, "queen shard move --queue house"),
        ("none", "two", errors.QueueNotFound, "does not exist"),
        ("events", "four", errors.NotFound, "database four does not exist"),
    ):
        with pytest.raises(error, match=says):
            await pins.pin(queue, HOT, database)
    with pytest.raises(errors.NotFound, match="not pinned"):
        await pins.unpin("events", HOT)
    with pytest.raises(errors.InvalidName):
        await pins.pin("events", "", "two")
    pinned = await pins.pin("events", HOT, "two")
    assert await pins.pin("events", HOT, "three") == pinned
    await cluster.engines["three"].close()
    with pytest.raises((errors.DatabaseUnavailable, errors.OutcomeUnknown)):
        await pins.pin("events", SECOND[0], "two")
    assert [each.partition for each in await pins.all()] == [HOT]


async def test_all_slots_for_pins_can_be_used(cluster: Cluster) -> None:
    await make(cluster)
    pins = Pins(cluster)
    found = [await pins.pin("events", f"hot{n}", "two") for n in range(len(RESERVED))]
    assert sorted(each.slot for each in found) == [*RESERVED]
    assert [each.database for each in found[:2]] == ["two", "main"]
    with pytest.raises(errors.SlotBusy, match="64 partitions are pinned"):
        await pins.pin("events", HOT, "two")

    await cluster.publish("events", await cluster.first.queues.delete("events"))
    await make(cluster, "later")
    assert (await pins.pin("later", HOT, "two")).slot == 960


async def test_a_pinned_partition_moves_without_others(
    cluster: Cluster, stale: Cluster, databases: dict[str, str]
) -> None:
    pin = await Pins(cluster).pin("events", HOT, "two")
    await cluster.push([item("events", 1, partition=name) for name in (HOT, OTHER)])
    async with Members.connected(databases) as members:
        await finish(members.move(pin.slot, "two", "three"))
    await stale.push([item("events", 2, partition=name) for name in (HOT, OTHER)])

    assert await rows_of(cluster, HOT) == {"three": [pin.slot]}
    assert await rows_of(cluster, OTHER) == {"main": [hashed(OTHER)]}
    for name in (HOT, OTHER):
        assert (await pop(cluster, partition=name))[-2:] == [1, 2]
