"""Messages of `queen.enqueue` reach queues in other databases, once and in order."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import pytest

from queen import errors
from queen.cluster.cluster import Cluster
from queen.engine.push.producers import Producer
from queen.wire.messages import PopRequest
from tests.cluster.moving import Move
from tests.cluster.places import NAMES, ONE, THREE, TWO, home, named, slot_of
from tests.cluster.stops import FAIL
from tests.engine.helpers import item, until, values

Databases = dict[str, str]


@pytest.fixture
async def execute(databases: Databases) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """Run a statement in one database."""
    connections = {name: await asyncpg.connect(dsn) for name, dsn in databases.items()}

    async def execute(name: str, statement: str, *arguments: object) -> Any:  # noqa: ANN401
        if arguments or statement.startswith("select"):
            return await connections[name].fetchval(statement, *arguments)
        return await connections[name].execute(statement)

    yield execute
    for connection in connections.values():
        await connection.close()


Execute = Callable[..., Awaitable[Any]]


async def enqueue(
    execute: Execute, name: str, queue: str, *payloads: object, partition: str = "p", **options: str
) -> None:
    """Enqueue in one database, in one transaction."""
    extra = "".join(f", {option} => {value}" for option, value in options.items())
    await execute(name, "begin")
    for payload in payloads:
        await execute(
            name,
            f"select queen.enqueue($1, $2, partition => $3{extra})",
            queue,
            json.dumps(payload),
            partition,
        )
    await execute(name, "commit")


async def taken(cluster: Cluster, queue: str, count: int) -> list[Any]:
    """The first messages of a queue, in delivery order."""
    found: list[Any] = []

    async def is_enough() -> bool:
        # Not waiting: an `auto_ack` pop that times out during its search may lose its messages.
        request = PopRequest(queue=queue, batch=1000, partitions=10, auto_ack=True)
        try:
            found.extend(values((await cluster.pop(request)).deliveries))
        except (errors.SlotMoved, errors.QueueNotFound):
            await cluster.owners.load()
        return len(found) >= count

    await until(is_enough, seconds=30)
    return found


async def is_empty(execute: Execute, name: str) -> bool:
    return not await execute(
        name,
        "select (select count(*) from queen.outbox) + (select count(*) from queen.forwards)",
    )


async def stored(execute: Execute, name: str, queue: str) -> int:
    """The number of messages of a queue in one database."""
    count = await execute(
        name,
        "select coalesce(sum(s.message_count), 0) from queen.segments s"
        " join queen.queues q on q.id = s.queue_id where q.name = $1",
        queue,
    )
    return int(count)


@pytest.mark.parametrize("source", NAMES)
async def test_a_message_reaches_a_queue_in_any_database(
    cluster: Cluster, execute: Execute, source: str
) -> None:
    """Also queues that do not exist yet: ONE, TWO and THREE are created by these messages."""
    queues = (ONE, TWO, THREE)
    for queue in queues:
        await enqueue(execute, source, queue, 1, 2, 3)

    for queue in queues:
        assert await taken(cluster, queue, 3) == [1, 2, 3]
        assert await stored(execute, home(queue), queue) == 3
    await until(lambda: is_empty(execute, source))


async def test_messages_for_one_database_pass_no_forwarder(
    cluster: Cluster, execute: Execute
) -> None:
    await cluster.push([item(ONE, 0)])

    await enqueue(execute, "main", ONE, 1)

    assert await taken(cluster, ONE, 2) == [0, 1]
    assert await execute("main", "select count(*) from queen.forward_batches") == 0


async def test_fields_of_a_message_are_kept(cluster: Cluster, execute: Execute) -> None:
    for _ in range(2):
        await enqueue(execute, "main", TWO, 1, transaction_id="'t-1'", headers="""'{"a": "b"}'""")
    await enqueue(execute, "main", TWO, 2)

    assert await taken(cluster, TWO, 2) == [1, 2]
    assert await stored(execute, "two", TWO) == 2


async def test_a_message_that_cannot_be_pushed_is_set_aside_with_its_reason(
    cluster: Cluster, execute: Execute
) -> None:
    await cluster.push([item(TWO, 0)])
    await enqueue(execute, "main", TWO, 1)
    await enqueue(execute, "main", TWO, 2, priority="5")
    await enqueue(execute, "main", TWO, 3)

    assert await taken(cluster, TWO, 3) == [0, 1, 3]

    async def is_aside() -> bool:
        return "unordered" in (await execute("main", "select max(error) from queen.outbox") or "")

    await until(is_aside)
    await execute("main", "update queen.outbox set item = item::jsonb - 'priority', error = null")
    cluster.engines["main"].outbox_mover.wake()
    assert await taken(cluster, TWO, 1) == [2]
    await until(lambda: is_empty(execute, "main"))


async def test_a_full_queue_or_a_schema_does_not_lose_committed_messages(
    cluster: Cluster, execute: Execute
) -> None:
    engine = await cluster.of_new_queue(TWO)
    await engine.queues.configure(TWO, {"max_size": 1, "schema": {"type": "integer"}})

    await enqueue(execute, "main", TWO, 1, 2, "three")

    assert await taken(cluster, TWO, 3) == [1, 2, "three"]


async def test_the_same_batch_is_sent_again_if_its_confirmation_was_lost(
    cluster: Cluster, execute: Execute
) -> None:
    await execute("main", FAIL.format(what="delete", table="forwards"))
    await enqueue(execute, "main", TWO, 1, 2)
    assert await taken(cluster, TWO, 2) == [1, 2]
    await enqueue(execute, "main", TWO, 3)

    await execute("main", "drop trigger fail on queen.forwards")

    assert await taken(cluster, TWO, 1) == [3]
    await until(lambda: is_empty(execute, "main"))
    assert await stored(execute, "two", TWO) == 3


async def test_a_database_that_rejects_writes_delays_only_its_queues(
    cluster: Cluster, execute: Execute
) -> None:
    await execute("two", FAIL.format(what="insert", table="segments"))
    await enqueue(execute, "main", TWO, *range(50))

    await enqueue(execute, "main", THREE, 1)
    await enqueue(execute, "main", ONE, 1)

    assert await taken(cluster, THREE, 1) == [1]
    assert await taken(cluster, ONE, 1) == [1]
    await execute("two", "drop trigger fail on queen.segments")
    assert await taken(cluster, TWO, 50) == [*range(50)]


# Slots that move while messages are on their way. A batch is stored in `two`, and its confirmation
# is lost.


async def lose_a_confirmation(
    cluster: Cluster, execute: Execute, queue: str, payloads: Sequence[object]
) -> None:
    await execute("main", FAIL.format(what="delete", table="forwards"))
    await enqueue(execute, "main", queue, *payloads)

    async def is_stored() -> bool:
        return await stored(execute, home(queue), queue) >= len(payloads)

    await until(is_stored, seconds=15)
    assert not await is_empty(execute, "main")


@pytest.mark.parametrize("target", ["main", "three"])
async def test_a_batch_is_stored_once_if_its_slot_moves_before_the_repeat(
    cluster: Cluster, databases: Databases, execute: Execute, target: str
) -> None:
    """To another database, or to the one of the outbox, where a push could be local from then."""
    await cluster.push([item(TWO, 0, partition="p")])
    await lose_a_confirmation(cluster, execute, TWO, [1])

    await Move(databases, slot_of(TWO), "two", target).run()
    await enqueue(execute, "main", TWO, 2, 3)
    await execute("main", "drop trigger fail on queen.forwards")

    assert await taken(cluster, TWO, 4) == [0, 1, 2, 3]
    await until(lambda: is_empty(execute, "main"))
    assert await stored(execute, target, TWO) == 4
    await enqueue(execute, "main", TWO, 4)
    assert await taken(cluster, TWO, 1) == [4]


async def test_queues_of_one_database_are_stored_once_if_only_one_slot_moves(
    cluster: Cluster, databases: Databases, execute: Execute
) -> None:
    queues = named("two", 3)
    for queue in queues:
        await cluster.push([item(queue, 0, partition="p")])
    await execute("main", FAIL.format(what="delete", table="forwards"))
    for queue in queues:
        await enqueue(execute, "main", queue, 1, 2)

    async def are_stored() -> bool:
        return [await stored(execute, "two", queue) for queue in queues] >= [2, 2, 2]

    await until(are_stored, seconds=15)
    await Move(databases, slot_of(queues[1]), "two", "three").run()
    await execute("main", "drop trigger fail on queen.forwards")

    for queue in queues:
        assert await taken(cluster, queue, 3) == [0, 1, 2]
    await until(lambda: is_empty(execute, "main"))
    assert await stored(execute, "three", queues[1]) == 3


async def test_a_batch_that_was_not_stored_follows_its_slot(
    cluster: Cluster, databases: Databases, execute: Execute
) -> None:
    await cluster.push([item(TWO, 0, partition="p")])
    move = Move(databases, slot_of(TWO), "two", "three")
    await move.leave()
    await enqueue(execute, "main", TWO, 1)
    await enqueue(execute, "main", THREE, 1)
    assert await taken(cluster, THREE, 1) == [1]
    assert not await is_empty(execute, "main")

    await move.finish()

    assert await taken(cluster, TWO, 2) == [0, 1]
    assert await stored(execute, "three", TWO) == 2


async def test_messages_wait_while_a_slot_of_their_own_database_is_leaving(
    cluster: Cluster, databases: Databases, execute: Execute
) -> None:
    (other,) = [name for name in named("main", 2) if name != ONE]
    await cluster.push([item(ONE, 0, partition="p"), item(other, 0)])
    move = Move(databases, slot_of(ONE), "main", "two")
    await move.leave()
    await enqueue(execute, "main", ONE, 1, 2)
    await enqueue(execute, "main", other, 1)
    assert await taken(cluster, other, 2) == [0, 1]

    await move.finish()
    await enqueue(execute, "main", ONE, 3)

    assert await taken(cluster, ONE, 4) == [0, 1, 2, 3]
    assert await stored(execute, "two", ONE) == 4


async def test_messages_are_pushed_if_a_move_is_given_up(
    cluster: Cluster, databases: Databases, execute: Execute
) -> None:
    await cluster.push([item(ONE, 0, partition="p")])
    move = Move(databases, slot_of(ONE), "main", "two")
    await move.leave()
    await enqueue(execute, "main", ONE, 1, 2)

    async def is_waiting() -> bool:
        return await execute("main", "select count(*) from queen.forwards") == 2

    await until(is_waiting)
    await move.give_up()
    await enqueue(execute, "main", ONE, 3)

    assert await taken(cluster, ONE, 4) == [0, 1, 2, 3]
    await until(lambda: is_empty(execute, "main"))


# Batches that are abandoned, because a message was rejected.


async def test_a_batch_that_was_stored_is_not_abandoned(cluster: Cluster, execute: Execute) -> None:
    """The repeat is rejected, because the options of the queue have changed since."""
    engine = await cluster.of_new_queue(TWO)
    await engine.queues.configure(TWO, {"ordered": False})
    await execute("main", FAIL.format(what="delete", table="forwards"))
    await enqueue(execute, "main", TWO, 1, priority="5")
    assert await taken(cluster, TWO, 1) == [1]

    await engine.queues.configure(TWO, {"ordered": True})
    await execute("main", "drop trigger fail on queen.forwards")

    await until(lambda: is_empty(execute, "main"), seconds=15)
    assert await stored(execute, "two", TWO) == 1


async def test_a_batch_is_abandoned_once_if_that_was_not_noted(
    cluster: Cluster, execute: Execute
) -> None:
    """The process died after it had abandoned the batch in `two`, and before it noted that."""
    await cluster.push([item(TWO, 0, partition="p")])
    only = "for each row when (new.error is not null) execute"
    await execute("main", FAIL.format(what="insert", table="outbox").replace("execute", only))
    for number in (1, 3):
        await enqueue(execute, "main", TWO, number)
    await enqueue(execute, "main", TWO, 2, priority="5")

    async def is_abandoned() -> bool:
        query = r"select count(*) from queen.producers where digest = '\x00'::bytea"
        return bool(await execute("two", query))

    await until(is_abandoned, seconds=15)
    await execute("main", "drop trigger fail on queen.outbox")
    await enqueue(execute, "main", TWO, 4)

    assert await taken(cluster, TWO, 4) == [0, 1, 3, 4]
    assert await execute("main", "select count(*) from queen.outbox where error <> ''") == 1


async def test_an_attempt_that_arrives_after_its_batch_was_abandoned_stores_nothing(
    cluster: Cluster, execute: Execute
) -> None:
    """Another process was stopped before it sent the batch."""
    await cluster.push([item(TWO, 0)])
    arrivals = cluster.engines["two"].arrivals
    producer = Producer("db:0", 7, scope=f"outbox:{TWO}")

    assert await arrivals.abandon(TWO, producer)
    assert await arrivals.abandon(TWO, producer)
    with pytest.raises(errors.SequenceReused):
        await arrivals.store([item(TWO, 1)], producer)
    later = producer._replace(sequence=8)
    assert await arrivals.store([item(TWO, 2)], later) == {}
    assert await arrivals.store([item(TWO, 2)], later) == {}
    assert not await arrivals.abandon(TWO, later)
    with pytest.raises(errors.SequenceStale):
        await arrivals.store([item(TWO, 1)], producer)

    assert await taken(cluster, TWO, 2) == [0, 2]
