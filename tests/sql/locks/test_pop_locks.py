"""A pop waits for no lock of another call."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sql.calls import (
    Call,
    ack,
    configure,
    configure_partition,
    defer,
    extend,
    leases,
    nack,
    partition_ids,
    pop,
    purge,
    push,
    release,
    run,
    seek,
    shorten,
    subscribe,
    transact,
)
from tests.sql.locks.scene import (
    LONG_AGO,
    QUEUES,
    Connect,
    Scene,
    arrange,
    attempt,
    give_up,
    group,
    partitions_of,
    redact,
    retry,
)

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

HOLDERS: Mapping[str, Callable[[Scene], Call]] = {
    "push": lambda s: push(s.ready, s.idle, *s.held, s.due, s.expired),
    "push of a message for later": lambda s: push(scheduled=[(s.idle, LONG_AGO)]),
    "pop": lambda s: pop(s.group_id),
    "pop of what is due": lambda s: pop(s.group_id, partitions=10, is_due_first=True),
    "pop of everything": lambda s: pop(s.group_id, batch=100, partitions=100),
    "pop without lease": lambda s: pop(s.group_id, batch=100, partitions=100, is_auto=True),
    "ack": lambda s: ack(*s.lent),
    "nack": lambda s: nack(*s.lent),
    "nack to the dead letters": lambda s: nack(*s.lent, kind="dead"),
    "extend": lambda s: extend(*s.lent),
    "release": lambda s: release(*s.lent),
    "defer": lambda s: defer(*s.lent),
    "shorten": lambda s: shorten(*s.lent),
    "transact": lambda s: transact(acked=s.lent, pushed=[s.ready, s.idle]),
    "redrive": lambda s: ("redrive", list(s.dead)),
    "seek": lambda _: seek("orders", "workers", LONG_AGO),
    "purge": lambda _: purge("orders"),
    "give_up": lambda s: give_up(s.held[0], 1),
    "redact": lambda s: redact(s.ready, 0),
    "retry": lambda s: retry(s.held[0], 0),
    "redrive_to": lambda s: ("redrive_to", list(s.dead), [b"1", b"1"], [None, None], s.ready),
    "configure": lambda _: configure("orders", retry_limit=7),
    "configure_partition": lambda _: configure_partition("orders", "ready", priority=1),
    "partition_ids": lambda _: partition_ids("orders", "new"),
    "subscribe": lambda _: subscribe("orders", "newcomers"),
}

POPS: Mapping[str, Callable[[Scene], Call]] = {
    "pop": lambda s: pop(s.group_id, batch=100, partitions=100),
    "pop of what is due": lambda s: pop(s.group_id, batch=100, partitions=100, is_due_first=True),
    "pop without lease": lambda s: pop(s.group_id, batch=100, partitions=100, is_auto=True),
    "pop of a partition that is ready": lambda s: pop(s.group_id, partition="ready"),
    "pop of a partition that is due": lambda s: pop(s.group_id, partition="due", is_due_first=True),
}


async def hold_and_pop(
    hold: Awaitable[object], holder: "Connection", popper: "Connection", scene: Scene
) -> list[str]:
    """Pop in every way while another transaction is open, and return the pops that waited."""
    waited: list[str] = []
    transaction = holder.transaction()
    await transaction.start()
    try:
        await hold
        for name, call in POPS.items():
            try:
                await attempt(popper, call(scene))
            except (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError):
                waited.append(name)
    finally:
        await transaction.rollback()
    return waited


async def warm(popper: "Connection", scene: Scene) -> None:
    """Plan the statements once, and set a timeout that is shorter than the locks of the holder."""
    for call in POPS.values():
        await attempt(popper, call(scene))
    await popper.execute("set lock_timeout = '1s'; set statement_timeout = '20s'")


@pytest.mark.parametrize("queue", QUEUES)
async def test_a_pop_waits_for_no_call_of_another_client(connect: Connect, queue: str) -> None:
    holder, popper = [await connect() for _ in range(2)]
    scene = await arrange(holder, QUEUES[queue])
    await warm(popper, scene)

    waited = {
        name: pops
        for name, call in HOLDERS.items()
        if (pops := await hold_and_pop(run(holder, call(scene)), holder, popper, scene))
    }

    assert waited == {}


@pytest.mark.parametrize("queue", QUEUES)
async def test_a_pop_waits_for_no_row(connect: Connect, queue: str) -> None:
    holder, popper = [await connect() for _ in range(2)]
    scene = await arrange(holder, QUEUES[queue])
    await warm(popper, scene)

    waited: dict[str, list[str]] = {}
    for table in (
        "partitions",
        "consumers",
        "deliveries",
        "scheduled",
        "limits",
        "queues",
        "groups",
    ):
        hold = holder.fetch(f"select 1 from queen.{table} for update")
        if pops := await hold_and_pop(hold, holder, popper, scene):
            waited[table] = pops

    assert waited == {}


async def test_first_pops_of_a_limited_group_do_not_wait_for_each_other(connect: Connect) -> None:
    holder, popper = [await connect() for _ in range(2)]
    await run(holder, configure("orders", **QUEUES["limited in rate"]))
    group_id = await group(holder, "workers")
    await run(holder, push(*await partitions_of(holder, "a", "b")))
    await popper.execute("set lock_timeout = '1s'")

    transaction = holder.transaction()
    await transaction.start()
    await run(holder, pop(group_id))
    popped = await run(popper, pop(group_id))
    await transaction.rollback()

    assert leases(popped) == []
    assert popped[-1]["wait_seconds"] is not None
