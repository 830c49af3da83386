"""Retention of the audit log removes old records, and the chain of the others stays verifiable."""

import asyncpg
import pytest

from queen import errors
from queen.engine.engine import Engine
from queen.engine.upkeep.loop import Upkeep
from queen.settings import Settings
from queen.store.audit import Audit
from tests.support.clock import Clock

DAY = 86_400
SETTINGS = Settings(retention_interval_ms=1_000, audit_retention_hours=100 * 24)


async def append(audit: Audit, count: int) -> None:
    for _ in range(count):
        record = '{"actor":"key:ops","action":"a","queue":null}'
        await audit.append(actor="key:ops", action="a", queue=None, record=record)


async def kept(audit: Audit) -> list[int]:
    return [row["id"] for row in await audit.list(before=2**62, limit=100)][::-1]


async def sweep(engine: Engine, clock: Clock, *, seconds: float) -> None:
    await clock.advance(seconds=seconds)
    upkeep = Upkeep(engine.core, SETTINGS)
    while await upkeep.look():
        pass


async def problem(engine: Engine) -> str | None:
    duties = await engine.store.database.fetch("duties")
    return next(row["error"] for row in duties if row["name"] == "audit")


async def test_old_records_are_removed_and_the_rest_is_still_a_chain(
    engine: Engine, clock: Clock
) -> None:
    audit = engine.store.audit
    await append(audit, 3)
    await clock.advance(seconds=60 * DAY)
    await append(audit, 2)
    whole = await audit.check()

    await sweep(engine, clock, seconds=41 * DAY)
    assert await kept(audit) == [4, 5]
    assert await audit.check() == whole._replace(removed=3)

    await append(audit, 1)
    assert (await audit.check()).records == 6
    await sweep(engine, clock, seconds=200 * DAY)
    assert await kept(audit) == []
    assert (await audit.check()).records == 6


async def test_missing_records_are_detected_after_a_removal_too(
    engine: Engine, clock: Clock
) -> None:
    audit = engine.store.audit
    await append(audit, 2)
    await clock.advance(seconds=60 * DAY)
    await append(audit, 3)
    await sweep(engine, clock, seconds=41 * DAY)
    connection = await asyncpg.connect(engine.store.database.dsn)
    await connection.execute("delete from queen.audit where id = 3")
    await connection.close()
    with pytest.raises(errors.DatabaseUnsafe, match="record 3"):
        await audit.check()


@pytest.mark.parametrize(
    "damage",
    [
        "delete from queen.audit where id = 1",
        "update queen.audit set record = replace(record, 'key:ops', 'key:not') where id = 1",
    ],
)
async def test_a_broken_chain_is_kept_as_evidence(
    engine: Engine, clock: Clock, damage: str
) -> None:
    audit = engine.store.audit
    await append(audit, 3)
    connection = await asyncpg.connect(engine.store.database.dsn)
    await connection.execute(damage)
    await connection.close()
    left = await kept(audit)
    await sweep(engine, clock, seconds=101 * DAY)
    assert await kept(audit) == left
    assert "the audit log is broken at record 1" in (await problem(engine) or "")


async def test_a_database_user_cannot_remove_records_of_the_last_30_days(
    engine: Engine, clock: Clock
) -> None:
    audit = engine.store.audit
    await append(audit, 1)
    await clock.advance(seconds=29 * DAY)
    (duty,) = await engine.store.database.fetch("take_duties", 1, ["audit"], 60.0)
    (step,) = await engine.store.database.fetch("forget_audit", duty["epoch"], 0.0, 1_000)
    assert step["removed"] == 0
    await clock.advance(seconds=DAY + 1)
    (step,) = await engine.store.database.fetch("forget_audit", duty["epoch"], 0.0, 1_000)
    assert step["removed"] == 1


def test_a_shorter_retention_is_rejected() -> None:
    with pytest.raises(errors.BadSettings, match="QUEEN_AUDIT_RETENTION_HOURS"):
        Settings.from_environ({"QUEEN_AUDIT_RETENTION_HOURS": "719"})
