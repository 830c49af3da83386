"""No database waits for long, although others have a larger backlog."""

import itertools

from queen.cluster.cluster import Cluster
from queen.wire.messages import PopRequest
from tests.cluster.places import NAMES, named
from tests.cluster.reports import report
from tests.engine.helpers import item, values

PARTITION = {name: named(name, 1)[0] for name in NAMES}
BACKLOG = {"main": 1, "two": 10, "three": 100}
BOUND = 8
"""Claims that take later messages while a message is the oldest of all."""


async def make(cluster: Cluster) -> None:
    engine = await cluster.of_new_queue("orders", is_spread=True)
    row = await engine.queues.configure("orders", {"placement": "spread", "ordered": False})
    await cluster.publish("orders", row["id"])


async def test_the_oldest_message_waits_for_few_claims(cluster: Cluster) -> None:
    """T4: backlogs 1 : 10 : 100, and more messages arrive in each database."""
    await make(cluster)
    numbers = itertools.count()
    waiting: set[int] = set()

    async def push(database: str, count: int) -> None:
        some = list(itertools.islice(numbers, count))
        await cluster.push([item("orders", n, partition=PARTITION[database]) for n in some])
        waiting.update(some)

    for database in reversed(NAMES):
        await push(database, BACKLOG[database])
    passed: dict[int, int] = {}
    for claim in itertools.count(1):
        for database, every in zip(NAMES, (23, 7, 5), strict=True):
            if claim <= 200 and claim % every == 0:
                await push(database, 1)
        if not waiting:
            break
        (found,) = values((await cluster.pop(PopRequest(queue="orders", auto_ack=True))).deliveries)
        oldest = min(waiting)
        passed[oldest] = passed.get(oldest, 0) + (found != oldest)
        waiting.remove(found)
    report("T4", longest_wait_in_claims=max(passed.values()), bound=BOUND)
    assert sum(passed.values()) > 0
    assert max(passed.values()) <= BOUND


async def test_a_message_in_a_database_that_was_dry_has_its_turn(cluster: Cluster) -> None:
    await make(cluster)
    await cluster.push([item("orders", n, partition=PARTITION["three"]) for n in range(60)])
    request = PopRequest(queue="orders", auto_ack=True)
    for _ in range(10):
        await cluster.pop(request)  # The others have no messages.
    await cluster.push(
        [item("orders", name, partition=PARTITION[name]) for name in ("main", "two")]
    )

    found = [values((await cluster.pop(request)).deliveries)[0] for _ in range(BOUND)]
    assert {"main", "two"} <= {*found}


async def test_a_batch_that_is_not_full_asks_one_more_database(cluster: Cluster) -> None:
    await make(cluster)
    await cluster.push([item("orders", 1, partition=each) for each in PARTITION.values()])
    request = PopRequest(queue="orders", batch=10, partitions=10)

    assert len((await cluster.pop(request)).deliveries) == 2
    assert len((await cluster.pop(request)).deliveries) == 1
