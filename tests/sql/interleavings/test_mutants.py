"""Each mutant of the SQL fails its check, and the real SQL passes."""

import re
from collections.abc import AsyncIterator
from typing import Final

import pytest

from queen import sql
from queen.store.messages import Ack
from queen.store.store import Store
from tests.sql.interleavings.lab import Lab, schedules
from tests.sql.interleavings.mutants import Change, Check, prove
from tests.sql.interleavings.scene import (
    LEASE_SECONDS,
    OneConnection,
    Scene,
    Setting,
    Verb,
    Violation,
    take,
)
from tests.sql.interleavings.verbs import (
    ack,
    combine,
    extend,
    nack,
    pop,
    push,
    push_once,
    release,
)

DRAINED: Final = Setting(1)
BEHIND: Final = Setting(2)
UNTOUCHED: Final = Setting(1, is_claimed=False)
UNTOUCHED_BEHIND: Final = Setting(2, is_claimed=False)
EXPIRED: Final = Setting(1, is_expired=True)

NO_PARTITION_LOCK: Final = Change(
    "push",
    r"(where p\.id = any \(v_wanted\) order by p\.id) for no key update",
    r"\1",
)
OFFSETS_FROM_A_SEQUENCE: Final = Change(
    "push",
    r"coalesce\(n\.next_offset, 0\)(\s+\+ sum\(e\.message_count\))",
    r"nextval('public.offsets')\1",
)
LOCKS_AS_NAMED: Final = Change(
    "push",
    r"queen\.partitions p where p\.id = any \(v_wanted\) order by p\.id for no key update",
    "unnest(v_wanted) u (id) cross join lateral ("
    "select p.id, p.queue_id from queen.partitions p where p.id = u.id for no key update) p",
)
IDLE_WITHOUT_LOCK: Final = {
    "when a plain delivery ends": Change(
        "ack",
        r"array_agg\(\(\s+select p\.id\s+from queen\.partitions p[^;]*?skip locked\s*\)\)",
        "array_agg(d.partition_id)",
    ),
    "when a delivery ends": Change(
        "deliveries",
        r"v_locked := array\([^;]*?any \(v_drained\)[^;]*?skip locked\s*\)",
        "v_locked := v_drained",
    ),
    "when all is claimed": Change(
        "claim_new",
        r"v_locked := array\([^;]*?any \(v_taken\)[^;]*?skip locked\s*\)",
        "v_locked := v_ids",
    ),
    "when there was nothing": Change(
        "pass",
        r"v_locked := array\([^;]*?any \(p_partition_ids\)[^;]*?skip locked\s*\)",
        "v_locked := p_partition_ids",
    ),
}
NO_LOCK_TO_COUNT: Final = Change(
    "claim_due",
    r"perform 1\s+from queen\.partitions p[^;]*?skip locked;\s+continue when not found;",
    "null;",
)
NO_HOLD: Final = {
    "pop": Change(
        "claim_new", r"(v_hold\s+boolean :=) p_queue\.in_order and not p_auto", r"\1 false"
    ),
    "plain pop": Change(
        "pop",
        r"(claimed = f\.end_offset,) held = true, ready_at = null",
        r"\1 held = false, ready_at = v_now",
    ),
}
DRAINED_BEFORE_THE_LOCK: Final = Change(
    "ack",
    r"coalesce\(c\.claimed >= n\.next_offset and (g\.partition_id = any \(v_locked\))",
    r"coalesce(\1",
)
NO_TOKEN: Final = {
    "ack": (Change("ack", r" and d\.token = a\.token", ""),),
    "ack of offsets": (
        Change("ack", r" and d\.token = a\.token", ""),
        Change("deliveries", r" and d\.token = p_token", ""),
    ),
    "nack": (
        Change("deliveries", r" and d\.token = a\.token", ""),
        Change("nack", r" and d\.token = v_request\.token", ""),
    ),
    "extend": (Change("extend", r" and d\.token = a\.token", ""),),
    "release": (Change("give_back", r" and d\.token = a\.token", ""),),
}
KEYS: Final = r"  if p_keys is not null then\s+v_spans := .*?\n  end if;\n"
"""The block of push that searches for known transactionIds."""


@pytest.fixture
async def lab(dsn: str) -> AsyncIterator[Lab]:
    async with Lab.open(dsn) as lab:
        yield lab


# --- no partition lock


async def pushes_in_every_order(lab: Lab) -> None:
    await lab.step_through({"a": push("x"), "b": push("x")}, [DRAINED], is_ordered=True)


async def a_later_push_commits_first(lab: Lab) -> None:
    """A pop between two commits must not pass uncommitted messages."""
    for is_ordered in (True, False):
        await lab.base.execute("alter sequence public.offsets restart with 0")
        scene = await lab.scene(is_ordered=is_ordered, is_claimed=False)
        await lab.run(scene, [push("x"), push("x"), pop(is_auto=True)], (0, 1, 1, 2, 2, 0))
        await lab.check(scene)


async def test_pushes_without_the_partition_lock_reuse_an_offset(lab: Lab) -> None:
    await prove(lab, pushes_in_every_order, (NO_PARTITION_LOCK,), "UniqueViolation")


async def test_offsets_from_a_sequence_without_the_partition_lock_lose_a_message(lab: Lab) -> None:
    await lab.base.execute("create sequence public.offsets minvalue 0")
    changes = (NO_PARTITION_LOCK, OFFSETS_FROM_A_SEQUENCE)
    await prove(lab, a_later_push_commits_first, changes, "were to come")


async def test_partitions_locked_in_the_given_order_deadlock(lab: Lab) -> None:
    async def check(lab: Lab) -> None:
        verbs = {"z": push("z"), "x, z, y": push("x", "z", "y"), "y, x": push("y", "x")}
        await lab.step_through(verbs, [DRAINED], is_ordered=True, partitions=("x", "y", "z"))

    await prove(lab, check, (LOCKS_AS_NAMED,), "Deadlock")


# --- no token


async def stale(lab: Lab, name: str) -> None:
    """
    An old lease must not affect the current delivery, even if both have the same ID.

    After a crash the sequence reuses IDs, because claims commit asynchronously.
    """
    scene = await lab.scene(is_ordered=True)
    old = scene.leases["x"]
    await release()(scene, lab.store)
    (new,) = await take(scene, lab.store, batch=1)
    await lab.base.execute(
        "update queen.deliveries set id = $1 where id = $2", old.delivery_id, new.delivery_id
    )
    before = await lab.base.fetch("select * from queen.deliveries order by id")
    verbs: dict[str, Verb] = {"nack": nack(), "extend": extend(), "release": release()}
    if name == "ack of offsets":
        await lab.store.messages.ack([Ack(old.delivery_id, old.token, ((0, 1),))])
    else:
        await verbs.get(name, ack())(scene, lab.store)
    if await lab.base.fetch("select * from queen.deliveries order by id") != before:
        raise Violation(f"{name}: a stale lease changed what another holds")
    (row,) = await lab.store.messages.ack([Ack(old.delivery_id, new.token, None)])
    assert row["settled"] == 1


@pytest.mark.parametrize("name", NO_TOKEN)
async def test_without_the_token_a_stale_lease_settles_the_delivery_of_another(
    lab: Lab, name: str
) -> None:
    async def check(lab: Lab) -> None:
        await stale(lab, name)

    await prove(lab, check, NO_TOKEN[name], "stale lease")


# --- idle without the lock


async def deliveries_end_beside_pushes(lab: Lab) -> None:
    await lab.step_through({"push": push("x"), "ack": ack()}, [DRAINED, BEHIND], is_ordered=True)


async def other_deliveries_end_beside_pushes(lab: Lab) -> None:
    await lab.step_through(
        {"push": push("x"), "ack": ack()},
        [DRAINED, BEHIND],
        is_ordered=True,
        options={"concurrency_limit": 100},
    )


async def an_ack_waits_while_a_push_commits(lab: Lab) -> None:
    """The ack began before the push, and locks the partition after it."""

    async def lock_pair(scene: Scene, store: Store) -> None:
        assert isinstance(store.database, OneConnection)
        await store.database.connection.fetch(
            "select 1 from queen.consumers where group_id = $1 for no key update", scene.group_id
        )

    scene = await lab.scene(is_ordered=True)
    await lab.run(scene, [lock_pair, ack(), push("x")], (0, 1, 2, 2, 0, 1))
    await lab.check(scene)


async def claims_beside_pushes(lab: Lab) -> None:
    for verb in (pop(), pop(is_auto=True)):
        await lab.step_through({"push": push("x"), "pop": verb}, [UNTOUCHED], is_ordered=False)


async def empty_searches_beside_pushes(lab: Lab) -> None:
    """A ready pair without messages, left so by a pop that could not lock the partition."""
    for order in schedules(2):
        scene = await lab.scene(is_ordered=False, is_claimed=False)
        async with lab.clients[2].connection.transaction():
            await lab.clients[2].connection.execute(
                "select 1 from queen.partitions where id = $1 for no key update",
                scene.partition_ids["x"],
            )
            await pop(is_auto=True)(scene, lab.store)
        await lab.run(scene, [push("x"), pop()], order)
        await lab.check(scene)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("when a plain delivery ends", deliveries_end_beside_pushes),
        ("when a delivery ends", other_deliveries_end_beside_pushes),
        ("when all is claimed", claims_beside_pushes),
        ("when there was nothing", empty_searches_beside_pushes),
    ],
)
async def test_a_pair_made_idle_without_the_partition_lock_misses_a_message(
    lab: Lab, name: str, check: Check
) -> None:
    await prove(lab, check, (IDLE_WITHOUT_LOCK[name],), "lost wake-up")


async def test_a_pair_drained_before_the_lock_misses_a_message(lab: Lab) -> None:
    check = an_ack_waits_while_a_push_commits
    await prove(lab, check, (DRAINED_BEFORE_THE_LOCK,), "lost wake-up")


async def redeliveries_are_counted_beside_pushes(lab: Lab) -> None:
    paced = {"rate_max": 1_000, "rate_ms": 1_000, "rate_per": "partition"}
    verbs = {"push": push("x"), "pop": pop()}
    await lab.step_through(verbs, [EXPIRED], is_ordered=False, options=paced)


async def test_an_idle_pair_that_is_moved_without_the_partition_lock_is_not_woken(lab: Lab) -> None:
    await prove(lab, redeliveries_are_counted_beside_pushes, (NO_LOCK_TO_COUNT,), "lost wake-up")


# --- off by one in time


async def stand_still(lab: Lab) -> None:
    """Stop the clock until it is moved."""
    await lab.base.execute(
        "create or replace function queen.now () returns timestamptz language sql volatile"
        " as 'select at from public.clock'"
    )


async def a_lease_ends_now(lab: Lab) -> None:
    await stand_still(lab)
    for is_ordered in (True, False):
        scene = await lab.scene(is_ordered=is_ordered)
        await lab.clock.advance(seconds=LEASE_SECONDS)
        if not await take(scene, lab.store, batch=1):
            raise Violation("a lease that ends now is not over")


async def a_message_is_ready_now(lab: Lab) -> None:
    await stand_still(lab)
    for partition in ("x", None):
        scene = await lab.scene(is_ordered=True, is_claimed=False)
        if not await take(scene, lab.store, batch=1, partition=partition):
            raise Violation("a message that is ready now is not given")


async def test_a_lease_that_ends_exactly_now_is_over(lab: Lab) -> None:
    change = Change("claim_due", r"d\.until <= p_now", "d.until < p_now")
    await prove(lab, a_lease_ends_now, (change,), "a lease that ends now")


async def test_a_message_that_is_ready_exactly_now_is_delivered(lab: Lab) -> None:
    change = Change("claim_new", r"c\.ready_at <= p_now", "c.ready_at < p_now")
    await prove(lab, a_message_is_ready_now, (change,), "ready now")


async def test_a_plain_message_that_is_ready_exactly_now_is_delivered(lab: Lab) -> None:
    async def check(lab: Lab) -> None:
        await stand_still(lab)
        scene = await lab.scene(is_ordered=True, is_claimed=False)
        if not await take(scene, lab.store, batch=1, is_plain=True):
            raise Violation("a message that is ready now is not given")

    await prove(
        lab, check, (Change("pop", r"c\.ready_at <= v_now", "c.ready_at < v_now"),), "ready"
    )


# --- no hold


@pytest.mark.parametrize("name", NO_HOLD)
async def test_without_the_hold_an_ordered_partition_has_two_leases(lab: Lab, name: str) -> None:
    async def pops_of_an_ordered_queue(lab: Lab) -> None:
        one = pop(batch=1, is_plain=name == "plain pop")
        await lab.step_through({"a": one, "b": one}, [UNTOUCHED_BEHIND], is_ordered=True)

    await prove(lab, pops_of_an_ordered_queue, (NO_HOLD[name],), "two holders|was given")


# --- dedup before the lock


async def pushes_of_one_transaction_id(lab: Lab) -> None:
    for order in schedules(2):
        scene = await lab.scene(is_ordered=True)
        await lab.run(scene, [push("x", has_key=True), push("x", has_key=True)], order)
        await lab.check(scene)


async def test_transaction_ids_checked_before_the_lock_are_stored_twice(lab: Lab) -> None:
    found = re.search(KEYS, sql.FUNCTIONS["push"], re.DOTALL)
    assert found
    block = found[0].replace("\\", r"\\")
    changes = (
        Change("push", KEYS, ""),
        # At the start of the function, before its first lock.
        Change(
            "push",
            r"(v_xid\s+xid8;\nbegin\n)",
            r"\1  v_now := queen.now();\n" + block,
        ),
    )
    await prove(lab, pushes_of_one_transaction_id, changes, "stored twice")


# --- producers without their lock


async def requests_with_one_number(lab: Lab) -> None:
    verbs = {"combine": combine(producer=1), "push": push_once("y", 1)}
    await lab.step_through(verbs, [UNTOUCHED], is_ordered=True, partitions=("x", "y"))


async def test_a_request_is_stored_twice_without_the_lock_of_its_producer(lab: Lab) -> None:
    lock = r"(where p\.producer_id = n\.producer_id and p\.scope = n\.scope)\s+for no key update"
    both = (
        Change("producers", lock, r"\1"),
        Change("producers", r"perform pg_advisory_xact_lock\(n\.lock\)", "perform 1"),
    )
    await lab.base.execute(
        # The first request of a producer waits for the key of its row.
        "create or replace function public.known() returns trigger language plpgsql as $$ begin"
        " insert into queen.producers (producer_id, scope, sequence, at)"
        " values (new.name, '*', 0, now()); return null; end $$;"
        "create trigger known after insert on queen.queues"
        " for each row execute function public.known()"
    )
    await prove(lab, requests_with_one_number, both, "stored twice")


# --- keys in memory


async def pushes_of_one_key_in_blocks(lab: Lab) -> None:
    """Servers with empty memory, and older servers whose keys are rows."""
    for forms in ((True, True), (True, False), (False, True)):
        for order in schedules(2):
            scene = await lab.scene(is_ordered=True)
            verbs = [push("x", has_key=True, in_blocks=in_blocks) for in_blocks in forms]
            await lab.run(scene, verbs, order)
            await lab.check(scene)


async def test_keys_in_blocks_that_a_server_does_not_know_are_compared(lab: Lab) -> None:
    changes = (
        Change(
            "dedup_blocks", r"when n\.base_offset = k\.base_offset and n\.at = k\.at", "when true"
        ),
    )
    await prove(lab, pushes_of_one_key_in_blocks, changes, "stored twice")


async def test_blocks_become_rows_for_a_server_without_memory(lab: Lab) -> None:
    changes = (Change("push_keys", r"perform queen\.unpack_blocks\([^;]*;", "null;"),)
    await prove(lab, pushes_of_one_key_in_blocks, changes, "stored twice")


async def test_a_server_with_memory_searches_the_rows_of_others(lab: Lab) -> None:
    changes = (Change("dedup_blocks", r"insert into queen\.dedup_rows as r [^;]*;", "null;"),)
    await prove(lab, pushes_of_one_key_in_blocks, changes, "stored twice")
