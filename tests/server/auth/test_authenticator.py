"""Tickets, and API keys while the database is unavailable."""

import asyncio
import functools
import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence

import asyncpg
import pytest

from queen import errors
from queen.server.auth import api_keys
from queen.server.auth.authenticator import Authenticator
from queen.server.auth.permissions import ANYBODY
from queen.settings import Settings
from queen.store.connection.database import Record
from queen.store.migrations import migrate
from queen.store.store import Store
from tests.support.callers import KEYS, Caller, make_key
from tests.support.clock import Clock
from tests.support.postgres import Postgres
from tests.support.server import Server, until


@pytest.fixture
async def authenticator(store: Store) -> AsyncIterator[Authenticator]:
    authenticator = Authenticator(Settings.from_environ(KEYS), store.keys)
    yield authenticator
    await authenticator.close()


async def test_a_ticket_authenticates_its_caller_once(
    dsn: str, authenticator: Authenticator
) -> None:
    key = await make_key(dsn, role="read-only", scopes=[{"queue": "a*"}])
    caller = await authenticator.caller(f"Bearer {key}")
    ticket = await authenticator.make_ticket(caller)
    assert await authenticator.take_ticket(ticket.ticket) == caller
    for text in (ticket.ticket, "", "qt_", "qt_" + "0" * 64, key, "x" * 10_000):
        with pytest.raises(errors.Unauthorized):
            await authenticator.take_ticket(text)


async def test_a_ticket_is_valid_for_thirty_seconds(
    dsn: str, clock: Clock, authenticator: Authenticator
) -> None:
    caller = await authenticator.caller(f"Bearer {await make_key(dsn)}")
    fresh, stale = await authenticator.make_ticket(caller), await authenticator.make_ticket(caller)
    await clock.advance(seconds=29)
    assert await authenticator.take_ticket(fresh.ticket) == caller
    await clock.advance(seconds=2)
    with pytest.raises(errors.Unauthorized):
        await authenticator.take_ticket(stale.ticket)


async def test_unused_tickets_expire(
    dsn: str, store: Store, clock: Clock, authenticator: Authenticator
) -> None:
    await authenticator.make_ticket(ANYBODY)
    await clock.advance(seconds=31)
    last = await authenticator.make_ticket(ANYBODY)
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval("select count(*) from queen.tickets") == 1
    await connection.close()
    assert await authenticator.take_ticket(last.ticket) == ANYBODY


async def test_a_ticket_of_a_revoked_key_is_rejected(
    dsn: str, store: Store, authenticator: Authenticator
) -> None:
    key = await make_key(dsn)
    caller = await authenticator.caller(f"Bearer {key}")
    ticket = await authenticator.make_ticket(caller)
    assert caller.key_id is not None
    await store.keys.revoke(caller.key_id)
    assert authenticator.keys is not None
    await authenticator.keys.refresh(caller.key_id)
    assert not await authenticator.is_valid(caller)
    with pytest.raises(errors.Unauthorized):
        await authenticator.take_ticket(ticket.ticket)


@pytest.mark.parametrize(
    "damage",
    ["permissions = '{produce,teleport}', role = null", """scopes = '[{"galaxy": "*"}]'"""],
)
async def test_a_key_of_a_newer_release_is_rejected_and_other_keys_work(
    dsn: str, authenticator: Authenticator, damage: str
) -> None:
    good, newer = await make_key(dsn), await make_key(dsn)
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        f"update queen.keys set {damage} where id = $1",
        api_keys.id_of(newer),
    )
    await connection.close()

    async with asyncio.timeout(10):
        for _ in range(2):
            with pytest.raises(errors.Unauthorized):
                await authenticator.caller(f"Bearer {newer}")
            assert (await authenticator.caller(f"Bearer {good}")).key_id == api_keys.id_of(good)


async def test_an_unexpected_error_while_reading_keys_fails_only_its_callers(
    dsn: str, authenticator: Authenticator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await make_key(dsn)

    async def failing(ids: object) -> list[Record]:
        raise RuntimeError("injected")

    async with asyncio.timeout(10):
        with monkeypatch.context() as patched:
            patched.setattr(store.keys, "find", failing)
            with pytest.raises(RuntimeError, match="injected"):
                await authenticator.caller(f"Bearer {key}")
        assert (await authenticator.caller(f"Bearer {key}")).key_id == api_keys.id_of(key)


async def test_ten_thousand_waits_of_one_key_end_together_with_few_statements(
    dsn: str, authenticator: Authenticator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = await authenticator.caller(f"Bearer {await make_key(dsn)}")
    asked: list[float] = []
    find = store.keys.find

    async def counted(ids: Sequence[str]) -> list[Record]:
        asked.append(time.monotonic())
        return await find(ids)

    monkeypatch.setattr(store.keys, "find", counted)
    loop = asyncio.get_running_loop()
    waits = [loop.create_future() for _ in range(10_000)]
    for wait in waits:
        authenticator.revocations.add(caller, functools.partial(wait.set_result, None))
    await until(lambda: has(lambda: len(asked) >= 3))
    assert not any(wait.done() for wait in waits)
    assert min(b - a for a, b in itertools.pairwise(asked)) > 0.2

    assert caller.key_id is not None
    await store.keys.revoke(caller.key_id)
    async with asyncio.timeout(10):
        await asyncio.gather(*waits)
    count = len(asked)
    assert authenticator.revocations.is_idle
    assert not await authenticator.is_valid(caller)
    assert len(asked) <= count + 1


async def has(condition: Callable[[], bool]) -> bool:
    return condition()


@pytest.mark.parametrize("grace", [0, 300])
async def test_known_keys_are_accepted_for_a_while_without_a_database(grace: int) -> None:
    with Postgres(in_memory=True) as postgres:
        dsn = postgres.create_database("queen")
        await migrate(dsn)
        environment = {**KEYS, "QUEEN_KEY_GRACE_SECONDS": str(grace)}
        async with Server(dsn, environment) as server:
            seen = Caller(server, await make_key(dsn))
            unseen = Caller(server, await make_key(dsn, requests_per_second=5))
            assert (await seen.get("/auth/me")).status == 200
            postgres.stop()
            reply = await unseen.get("/auth/me")
            assert (reply.status, reply.code) == (503, "database_unavailable")
            ends_at = time.monotonic() + 2 * api_keys.BELIEVED_SECONDS
            last = reply
            while time.monotonic() < ends_at:
                last = await seen.get("/auth/me")
                assert last.status == 200 or not grace
            assert (last.status, last.code) == (
                (200, None) if grace else (503, "database_unavailable")
            )
            postgres.start()
