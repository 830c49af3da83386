"""Transactions of two and three connections in every order: no lost message, no deadlock."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from itertools import combinations, combinations_with_replacement
from typing import Final
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio

from tests.sql.interleavings.lab import Lab, schedules
from tests.sql.interleavings.scene import Setting, Verb
from tests.sql.interleavings.verbs import (
    ack,
    combine,
    extend,
    nack,
    pop,
    push,
    push_once,
    redrive,
    release,
    transact,
)
from tests.support.postgres import Server

# One database for all: each schedule has its own queue, and plans are made once.
pytestmark = pytest.mark.asyncio(loop_scope="module")

VERBS: Final[Mapping[str, Verb]] = {
    "push": push("x"),
    "pop": pop(),
    "plain pop": pop(is_plain=True),
    "auto-ack": pop(is_auto=True),
    "ack": ack(),
    "nack": nack(),
    "release": release(),
    "extend": extend(),
    "redrive": redrive(),
    "combine": combine(),
}
NEED_NO_LEASE: Final = {"push", "pop", "plain pop", "auto-ack", "redrive", "combine"}
PAIRS: Final = tuple(combinations_with_replacement(VERBS, 2))
TRIPLES: Final = (
    ("push", "pop", "ack"),
    ("push", "auto-ack", "nack"),
    ("pop", "ack", "nack"),
    ("combine", "ack", "push"),
)
DRAINED: Final = Setting(1)
BEHIND: Final = Setting(2)
EXPIRED: Final = Setting(1, is_expired=True)
UNTOUCHED: Final = Setting(1, is_claimed=False)

PACED: Final = {"rate_max": 1_000, "rate_ms": 1_000, "rate_per": "partition"}
"""A limit that no test here reaches, so that claims are counted."""

ORDERED_AND_NOT: Final = pytest.mark.parametrize(
    "is_ordered", [True, False], ids=["ordered", "unordered"]
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(postgres: Server, template: str) -> AsyncIterator[Lab]:
    dsn = postgres.create_database(f"interleavings_{uuid4().hex}", template=template)
    async with Lab.open(dsn) as lab:
        yield lab


def named(*names: str) -> dict[str, Verb]:
    return {f"{name} {at}": VERBS[name] for at, name in enumerate(names)}


@ORDERED_AND_NOT
@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
async def test_two_clients_in_every_order(
    lab: Lab, pair: tuple[str, str], is_ordered: bool
) -> None:
    settings = [DRAINED, BEHIND, EXPIRED]
    if set(pair) <= NEED_NO_LEASE:
        settings.append(UNTOUCHED)
    has_letter = "redrive" in pair
    count = await lab.step_through(
        named(*pair), settings, is_ordered=is_ordered, has_letter=has_letter
    )
    assert count == 6 * len(settings)


@pytest.mark.nightly
@ORDERED_AND_NOT
@pytest.mark.parametrize("triple", TRIPLES, ids=" and ".join)
async def test_three_clients_in_every_order(
    lab: Lab, triple: tuple[str, ...], is_ordered: bool
) -> None:
    settings = [EXPIRED] if triple == ("pop", "ack", "nack") else [DRAINED]
    assert await lab.step_through(named(*triple), settings, is_ordered=is_ordered) == 90


@pytest.mark.nightly
@ORDERED_AND_NOT
@pytest.mark.parametrize("name", VERBS)
async def test_pushes_and_pops_of_a_partition_with_a_rate_limit_in_every_order(
    lab: Lab, name: str, is_ordered: bool
) -> None:
    """A redelivery counts too, and its pair may be idle."""
    for other in ("push", "pop"):
        await lab.step_through(
            named(name, other),
            [DRAINED, BEHIND, EXPIRED],
            is_ordered=is_ordered,
            has_letter=name == "redrive",
            options=PACED,
        )


@pytest.mark.slow
@pytest.mark.timeout(600)
@ORDERED_AND_NOT
@pytest.mark.parametrize("triple", list(combinations(VERBS, 3)), ids=" and ".join)
async def test_any_three_clients_in_every_order(
    lab: Lab, triple: tuple[str, ...], is_ordered: bool
) -> None:
    settings = [DRAINED, BEHIND, EXPIRED]
    count = await lab.step_through(
        named(*triple), settings, is_ordered=is_ordered, has_letter="redrive" in triple
    )
    assert count == 270


async def test_pushes_to_several_partitions_in_opposite_order_do_not_deadlock(lab: Lab) -> None:
    # Locked in the given order, the second has x and waits for z, the third has y and waits for x.
    verbs = {"z": push("z"), "x, z, y": push("x", "z", "y"), "y, x": push("y", "x")}
    await lab.step_through(verbs, [DRAINED], is_ordered=True, partitions=("x", "y", "z"))


@ORDERED_AND_NOT
async def test_transactions_in_opposite_directions_do_not_deadlock(
    lab: Lab, is_ordered: bool
) -> None:
    verbs = {
        "from x to y": transact(acked="x", pushed="y"),
        "from y to x": transact(acked="y", pushed="x"),
    }
    await lab.step_through(verbs, [DRAINED, BEHIND], is_ordered=is_ordered, partitions=("x", "y"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "third",
    [
        pytest.param(transact(acked="z", pushed="x"), id="a transaction"),
        pytest.param(pop(), id="a pop"),
        pytest.param(push("z", "y", "x"), id="a push", marks=pytest.mark.slow),
        pytest.param(ack("z"), id="an ack", marks=pytest.mark.slow),
    ],
)
async def test_transactions_in_a_ring_do_not_deadlock(lab: Lab, third: Verb) -> None:
    verbs = {
        "from x to y": transact(acked="x", pushed="y"),
        "from y to z": transact(acked="y", pushed="z"),
        "third": third,
    }
    await lab.step_through(verbs, [DRAINED], is_ordered=True, partitions=("x", "y", "z"))


async def test_two_pushes_of_one_transaction_id_store_one_message(lab: Lab) -> None:
    verbs = (push("x", has_key=True), push("x", has_key=True))
    for order in schedules(2):
        scene = await lab.scene(is_ordered=True)
        await lab.run(scene, verbs, order)
        await lab.check(scene)
        assert scene.pushed["x"] == 2


@ORDERED_AND_NOT
@pytest.mark.parametrize("sequences", [(1, 1), (1, 2), (2, 1)], ids=str)
async def test_requests_of_a_producer_are_stored_once_in_combined_calls(
    lab: Lab, sequences: tuple[int, int], is_ordered: bool
) -> None:
    """Of two with one number one is stored, and a lower number is never stored later."""
    first, second = sequences
    for other in (push_once("x", second), push_once("y", second), combine(producer=second)):
        await lab.step_through(
            {"combine": combine(producer=first), "other": other},
            [DRAINED, BEHIND, UNTOUCHED],
            is_ordered=is_ordered,
            partitions=("x", "y"),
        )


async def test_a_lock_of_another_session_is_not_mistaken_for_a_wait_between_clients(
    dsn: str,
) -> None:
    """For example a vacuum's lock, during which the step is not over."""
    async with Lab.open(dsn) as lab, asyncio.timeout(10):
        scene = await lab.scene(is_ordered=True)
        stranger = await asyncpg.connect(dsn)
        await stranger.execute("begin; lock table queen.segments in access exclusive mode")

        async def let_go() -> None:
            while not await stranger.fetchval("select pg_blocking_pids($1)", lab.clients[0].pid):
                pass
            # Long enough for the step to be checked.
            for _ in range(100):
                await stranger.fetchval("select 1")
            await stranger.execute("commit")

        async with asyncio.TaskGroup() as group:
            group.create_task(let_go())
            await lab.run(scene, (push("x"), push("x")), (0, 0, 1, 1))
        await lab.check(scene)
        await stranger.close()


@ORDERED_AND_NOT
@pytest.mark.parametrize("name", VERBS)
async def test_a_pop_waits_for_no_other_client(lab: Lab, name: str, is_ordered: bool) -> None:
    """Rule 10: it returns while the other transaction is still open."""
    scene = await lab.scene(
        is_ordered=is_ordered, messages=2, is_expired=True, has_letter=name == "redrive"
    )
    first, second = lab.clients[:2]
    await first.begin(scene, VERBS[name])
    await second.begin(scene, pop())
    await second.commit()
    await first.commit()
    await lab.check(scene)
