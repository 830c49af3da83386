"""A group reads ten million messages, of which nine million are only in the lake."""

# pyright: basic
import os
import time
from pathlib import Path

import pytest

from queen.engine.engine import Engine
from queen.pipelines import archive, recall
from queen.pipelines.tasks import LOCAL
from tests.engine.helpers import ack, pop
from tests.spark.filling import fill, payload
from tests.spark.log import Log

MESSAGES = int(os.environ.get("RECALL_MESSAGES", "10_000_000"))
PARTITIONS = 8
SEGMENT = 1_000
LEAST_RATIO = 0.5


@pytest.mark.nightly
@pytest.mark.timeout(3600)
async def test_a_group_reads_both_tiers_in_order_at_half_the_rate_of_one(
    dsn: str, tmp_path: Path
) -> None:
    with Log(dsn, "orders", retention_enabled=True, retention_seconds=60) as log:
        log.stop_clock()
        log.execute("insert into queen.duties (name, epoch) values ('retention', 1)")
        push(dsn, MESSAGES * 9 // 10)
        log.advance(seconds=600)
        push(dsn, MESSAGES // 10, start=MESSAGES * 9 // 10)
        archive.run(LOCAL, archive.Config(dsn=dsn, queue="orders", location=str(tmp_path / "lake")))
        stored_seconds = await consume(dsn, "before")
        while not log.execute(
            "select is_over from queen.retain(1, (select id from queen.queues), 'age', 100, 1)"
        )[0]["is_over"]:
            pass
        (row,) = log.execute(
            "select sum(s.message_count)::bigint as messages from queen.segments s"
            " where s.body is not null"
        )
        assert row["messages"] == MESSAGES // 10

        began_at = time.perf_counter()
        recalled = recall.run(LOCAL, recall.Config(dsn=dsn, queue="orders"))
        recall_seconds = time.perf_counter() - began_at
        tier_seconds = recall_seconds + await consume(dsn, "after")

    assert recalled.rows == MESSAGES * 9 // 10
    ratio = stored_seconds / tier_seconds
    print(
        f"\nfrom PostgreSQL {MESSAGES / stored_seconds:,.0f} messages/s, from both tiers"
        f" {MESSAGES / tier_seconds:,.0f} messages/s (recall: {recall_seconds:.1f} s): {ratio:.2f}"
    )
    assert ratio >= LEAST_RATIO


def push(dsn: str, messages: int, *, start: int = 0) -> None:
    transactions = messages // (PARTITIONS * SEGMENT)
    fill(dsn, "orders", messages, partitions=PARTITIONS, transactions=transactions, start=start)


async def consume(dsn: str, group: str) -> float:
    """Read all messages from the start, and check each. Returns the seconds without the checks."""
    seconds = 0.0
    next_offsets = {f"p{number}": 0 for number in range(PARTITIONS)}
    async with await Engine.open(dsn) as engine:
        await pop(engine, "orders", group=group, batch=1)  # Creates the group.
        await engine.queues.seek("orders", group, to_start=True)
        is_over = False
        while not is_over:
            began_at = time.perf_counter()
            deliveries = await pop(
                engine, "orders", group=group, batch=10_000, partitions=PARTITIONS
            )
            payloads = [each.payloads() for each in deliveries]
            for each in deliveries:
                await ack(engine, each)
            seconds += time.perf_counter() - began_at
            is_over = not deliveries
            for each, found in zip(deliveries, payloads, strict=True):
                first = next_offsets[each.partition]
                assert each.offsets == list(range(first, first + len(each)))
                for offset, payload_ in enumerate(found, first):
                    assert payload_ == expected(each.partition, offset)
                next_offsets[each.partition] = first + len(each)
    assert set(next_offsets.values()) == {MESSAGES // PARTITIONS}
    return seconds


def expected(partition: str, offset: int) -> bytes:
    transaction, place = divmod(offset, SEGMENT)
    number = (transaction * PARTITIONS + int(partition[1:])) * SEGMENT + place
    return payload(partition, number)
