"""Archived messages return to the log at their offsets, and consumer groups read them again."""

# pyright: basic
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from queen import errors, sql
from queen.engine.engine import Engine
from queen.pipelines import archive, recall
from queen.pipelines.archive import Config
from queen.pipelines.tasks import LOCAL
from queen.settings import Settings
from tests.engine.encryption.helpers import KEYED
from tests.engine.helpers import ack, pop, push
from tests.spark.log import Identity, Log, identity
from tests.spark.pipelines.test_archive import Format, archived, retain
from tests.spark.pipelines.test_local_engine import queen


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    """A queue that keeps messages for a minute, by a clock that the test moves."""
    with Log(dsn, "orders", retention_enabled=True, retention_seconds=60) as log:
        log.stop_clock()
        log.execute("insert into queen.duties (name, epoch) values ('retention', 1)")
        yield log


@pytest.fixture
def config(dsn: str, tmp_path: Path) -> Config:
    return Config(dsn=dsn, queue="orders", location=str(tmp_path / "lake"))


def run(dsn: str, **options: Any) -> recall.Progress:  # noqa: ANN401
    return recall.run(LOCAL, recall.Config(dsn=dsn, queue="orders", **options))


def remove_archived(log: Log, config: Config) -> list[Identity]:
    """Archive all messages, and let retention remove them. Returns what was removed."""
    archive.run(LOCAL, config)
    before = log.messages()
    assert retain(log) == 0
    return before


async def consume(
    dsn: str, group: str, *, start: bool = True, settings: Settings | None = None
) -> dict[str, list[Identity]]:
    """Messages that a group gets, by partition in the order of delivery."""
    found: defaultdict[str, list[Identity]] = defaultdict(list)
    async with await Engine.open(dsn, settings=settings or Settings()) as engine:
        if start:
            await pop(engine, "orders", group=group, batch=1)  # Creates the group.
            await engine.queues.seek("orders", group, to_start=True)
        while deliveries := await pop(engine, "orders", group=group, batch=50, partitions=10):
            for each in deliveries:
                for offset, payload in zip(each.offsets, each.payloads(), strict=True):
                    found[each.partition].append(identity(each.partition, offset, payload))
                await ack(engine, each)
    return dict(found)


def flat(by_partition: dict[str, list[Identity]]) -> list[Identity]:
    """All messages, after a check that each partition is in order."""
    for messages in by_partition.values():
        assert messages == sorted(messages)
    return sorted(each for messages in by_partition.values() for each in messages)


@pytest.mark.parametrize("format", ["iceberg", "delta", "parquet"])
async def test_a_group_reads_messages_that_only_the_lake_had(
    dsn: str, log: Log, config: Config, tmp_path: Path, format: Format
) -> None:
    config = Config(dsn=dsn, queue="orders", location=str(tmp_path / format), format=format)
    log.fill(segments=6)
    removed = remove_archived(log, config)
    log.fill(segments=2)
    kept = log.messages()

    progress = run(dsn)

    assert (progress.rows, progress.homeless) == (len(removed), 0)
    assert str(progress) == f"recalled {len(removed)} messages"
    assert log.messages() == sorted(removed + kept)
    assert flat(await consume(dsn, "late")) == sorted(removed + kept)


async def test_a_partition_without_messages_gets_its_messages_and_its_next_offset(
    dsn: str, log: Log, config: Config
) -> None:
    log.fill(segments=3, partitions=2)
    removed = remove_archived(log, config)

    run(dsn)

    assert log.messages() == removed
    log.push("p0", ["next"])
    assert max(each.offset for each in log.messages() if each.partition == "p0") == 60
    assert len(flat(await consume(dsn, "late"))) == len(removed) + 1


async def test_groups_get_recalled_messages_only_after_a_seek(
    dsn: str, log: Log, config: Config
) -> None:
    log.fill(segments=3)
    everything = flat(await consume(dsn, "billing"))
    assert everything == remove_archived(log, config)
    log.push("p0", ["unread"])

    run(dsn)

    (unread,) = flat(await consume(dsn, "billing", start=False))
    assert unread.offset == 60
    assert len(flat(await consume(dsn, "billing"))) == len(everything) + 1


async def test_erased_messages_do_not_return(dsn: str, log: Log, config: Config) -> None:
    log.fill(segments=3, partitions=1)
    archive.run(LOCAL, config)
    async with await Engine.open(dsn) as engine:
        (row,) = log.execute("select id from queen.partitions")
        for offset in (0, 25, 26, 59):
            await engine.redact(row["id"], offset, by="someone")
    before = log.messages()
    assert len(before) == 56
    assert retain(log) == 0

    assert run(dsn).rows == 56

    assert log.messages() == before
    assert flat(await consume(dsn, "late")) == before
    log.push("p0", ["next"])
    assert log.messages()[-1].offset == 60


async def test_an_erasure_during_a_recall_stops_it(
    dsn: str, log: Log, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.fill(segments=3, partitions=1)
    remove_archived(log, config)
    (row,) = log.execute("select id from queen.partitions")

    def erase(progress: recall.Progress) -> None:
        if progress.read and not progress.rows:
            log.execute(
                'insert into queen.redactions (partition_id, "offset", redacted_at, redacted_by)'
                " values ($1, 30, now(), 'someone')",
                row["id"],
            )

    with pytest.raises(errors.Conflict, match="run the recall again"):
        recall.run(LOCAL, recall.Config(dsn=dsn, queue="orders"), report=erase)

    assert log.messages() == []
    assert run(dsn).rows == 59
    assert [each.offset for each in log.messages()] == [*range(30), *range(31, 60)]


@pytest.mark.parametrize(
    "change",
    [
        "delete from queen.segments where base_offset < 100",  # As a purge would.
        "truncate queen.recalled",  # As a crash of PostgreSQL would.
    ],
)
def test_a_change_during_a_recall_stops_it(dsn: str, log: Log, config: Config, change: str) -> None:
    log.fill(segments=3, partitions=1)
    removed = remove_archived(log, config)
    log.push("p0", range(40))
    log.push("p0", ["later"])
    before: list[Identity] = []

    def act(progress: recall.Progress) -> None:
        if progress.read and not before:
            log.execute(change)
            before.extend(log.messages())

    with pytest.raises(errors.Conflict, match="run the recall again"):
        recall.run(LOCAL, recall.Config(dsn=dsn, queue="orders"), report=act)

    assert log.messages() == before
    run(dsn)
    assert log.messages() == sorted(removed + before)


async def test_a_message_that_returns_while_it_is_erased_is_erased(
    dsn: str, log: Log, config: Config
) -> None:
    log.fill(segments=1, partitions=1)
    remove_archived(log, config)
    run(dsn)
    (row,) = log.execute("select id from queen.partitions")
    # As a process that did not find the message before the recall.
    (answer,) = log.execute(
        "select queen.redact($1, 5, null, null, null, null, null, null, null, null, null, 'me')"
        " as is_done",
        row["id"],
    )
    assert answer["is_done"] is False
    async with await Engine.open(dsn) as engine:
        await engine.redact(row["id"], 5, by="me")
    assert [each.offset for each in log.messages()] == [*range(5), *range(6, 20)]


def test_recalled_messages_are_inside_time_ranges(dsn: str, log: Log, config: Config) -> None:
    log.fill(segments=1, partitions=1)
    remove_archived(log, config)
    log.fill(segments=1, partitions=1)
    run(dsn)
    (row,) = log.execute(
        """
        select queen.xid_at(q.id, queen.now() - '10 years'::interval) as start,
          queen.xid_at(q.id, queen.now() - '10 years'::interval, false) as end
        from queen.queues q
        """
    )
    assert (row["start"], row["end"]) == (0, 1)


def test_retention_removes_recalled_messages_when_they_are_old_enough(
    dsn: str, log: Log, config: Config
) -> None:
    log.fill(segments=3)
    removed = remove_archived(log, config)
    log.execute("update queen.queues set retention_seconds = 20000")
    run(dsn, keep_seconds=1)

    assert retain(log) == len(removed)
    log.advance(seconds=20_000)
    assert retain(log) == 0


def test_a_time_without_a_zone_is_utc(
    dsn: str, log: Log, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.execute("update public.clock set at = '2026-01-01T22:00:00Z'")
    log.fill(segments=1, partitions=1)
    removed = remove_archived(log, config)
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert run(dsn, start_at=datetime(2026, 1, 1, 20)).rows == len(removed)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_retention_keeps_recalled_messages_until_the_hold_ends(
    dsn: str, log: Log, config: Config
) -> None:
    log.fill(segments=3)
    removed = remove_archived(log, config)
    run(dsn, keep_seconds=5_000)

    assert retain(log) == len(removed)
    (hold,) = log.execute("select name, expires_at - now() > '0' from queen.holds where xid = '0'")
    assert hold["name"] == "recall:orders"

    log.advance(seconds=5_000)
    assert retain(log) == 0
    # Each message is in the lake once: recalled ones are not archived again.
    archive.run(LOCAL, config)
    assert archived(config) == removed


def test_the_hold_of_a_recall_without_messages_ends_after_an_hour(
    dsn: str, log: Log, config: Config
) -> None:
    log.fill(segments=1)
    archive.run(LOCAL, config)
    assert run(dsn).rows == 0
    log.advance(seconds=3_600)
    assert retain(log) == 0


def test_a_stopped_recall_is_run_again(dsn: str, log: Log, config: Config) -> None:
    log.fill(segments=3)
    removed = remove_archived(log, config)

    def stop(progress: recall.Progress) -> None:
        if progress.read:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recall.run(LOCAL, recall.Config(dsn=dsn, queue="orders"), report=stop)
    assert log.messages() == []
    assert log.execute("select 1 from queen.recalled") == []

    assert run(dsn).rows == len(removed)
    assert run(dsn).rows == 0
    assert log.messages() == removed


def test_the_second_of_two_concurrent_recalls_changes_nothing(
    dsn: str, log: Log, config: Config
) -> None:
    log.fill(segments=3)
    removed = remove_archived(log, config)
    first: list[int] = []

    def overtake(progress: recall.Progress) -> None:
        if progress.read and not first:
            first.append(0)
            first[0] = run(dsn).rows

    second = recall.run(LOCAL, recall.Config(dsn=dsn, queue="orders"), report=overtake)

    assert (first, second.rows) == ([len(removed)], 0)
    assert log.messages() == removed


def test_only_the_requested_messages_return(dsn: str, log: Log, config: Config) -> None:
    log.fill(segments=2)
    (row,) = log.execute("select queen.now() + '1 second' as at")
    log.advance(seconds=10)
    log.fill(segments=1)
    removed = remove_archived(log, config)
    later = [each for each in removed if each.offset >= 40]

    run(dsn, start_at=row["at"], partitions=("p1",))
    assert log.messages() == [each for each in later if each.partition == "p1"]
    run(dsn, start_at=row["at"])
    assert log.messages() == later
    run(dsn)
    assert log.messages() == removed


def test_messages_that_the_lake_does_not_have_leave_no_gap(
    dsn: str, log: Log, config: Config
) -> None:
    log.fill(segments=1, partitions=1)
    archive.run(LOCAL, config)
    log.fill(segments=1, partitions=1)
    log.execute("delete from queen.holds")
    assert retain(log) == 0  # The second segment is lost.
    log.fill(segments=1, partitions=1)
    kept = log.messages()

    run(dsn)

    offsets = [each.offset for each in log.messages()]
    assert offsets == [*range(20), *(each.offset for each in kept)] == [*range(20), *range(40, 60)]
    (row,) = log.execute("select sum(message_count) as messages from queen.segments")
    assert row["messages"] == 60


def test_messages_of_a_removed_partition_are_counted(dsn: str, log: Log, config: Config) -> None:
    log.fill(segments=1, partitions=2)
    remove_archived(log, config)
    log.execute("delete from queen.segments s using queen.partitions p"
                " where p.id = s.partition_id and p.name = 'p1'")  # fmt: skip
    log.execute("delete from queen.partitions where name = 'p1'")

    progress = run(dsn)

    assert (progress.rows, progress.homeless) == (20, 20)
    assert "20 messages of partitions that no longer exist can only be replayed" in str(progress)


async def test_all_fields_return(dsn: str, log: Log, config: Config) -> None:
    fields = {"transaction_id": "t-1", "trace_id": "trace", "headers": {"a": "ä"}}
    async with await Engine.open(dsn) as engine:
        await push(engine, "orders", {"n": 1}, **fields)
        await push(engine, "orders", {"n": 2})
        (delivery,) = await pop(engine, "orders", group="first", batch=2)
        before = list(delivery.messages())
        await ack(engine, delivery)
    archive.run(LOCAL, config)
    assert retain(log) == 0

    run(dsn)

    async with await Engine.open(dsn) as engine:
        await pop(engine, "orders", group="second")
        await engine.queues.seek("orders", "second", to_start=True)
        again = list((await pop(engine, "orders", group="second", batch=2))[0].messages())
    names = ("id", "transaction_id", "trace_id", "headers", "data", "created_at", "offset")
    assert [[getattr(each, name) for name in names] for each in again] == [
        [getattr(each, name) for name in names] for each in before
    ]


async def test_an_encrypted_queue_stays_encrypted(
    dsn: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEEN_ENCRYPTION_KEY", "11" * 32)
    options = {"retention_enabled": True, "retention_seconds": 60, "encrypted": True}
    with Log(dsn, "orders", **options) as log:
        log.stop_clock()
        log.execute("insert into queen.duties (name, epoch) values ('retention', 1)")
        async with await Engine.open(dsn, settings=KEYED) as engine:
            await push(engine, "orders", *({"secret": n} for n in range(5)))
        archive.run(LOCAL, config)
        assert retain(log) == 0

        run(dsn)

        (row,) = log.execute("select body from queen.segments")
        assert b"secret" not in row["body"]
        assert len(flat(await consume(dsn, "late", settings=KEYED))) == 5


def test_what_can_not_be_recalled_is_rejected(dsn: str, tmp_path: Path) -> None:
    with Log(dsn, "orders", max_wait_seconds=10) as log:
        with pytest.raises(errors.NotFound, match="queue orders has no archive"):
            run(dsn)
        log.fill(segments=1)
        archive.run(LOCAL, Config(dsn=dsn, queue="orders", location=str(tmp_path / "lake")))
        with pytest.raises(errors.InvalidOption, match="maxWaitTimeSeconds"):
            run(dsn)
    with pytest.raises(errors.QueueNotFound):
        recall.run(LOCAL, recall.Config(dsn=dsn, queue="missing"))


def test_the_command_recalls_without_spark_and_java(dsn: str, log: Log, config: Config) -> None:
    log.fill(segments=2)
    removed = remove_archived(log, config)

    done = queen(dsn, "pipeline", "recall", "--set", "queue=orders", "-o", "json")

    assert done.returncode == 0, done.stderr
    assert "recalled 120 messages" in done.stderr
    assert json.loads(done.stdout)["rows"] == 120
    assert log.messages() == removed


def test_the_role_of_pipelines_can_recall(dsn: str, log: Log, config: Config) -> None:
    for statement in (sql.ROLES, sql.GRANTS):
        psycopg.Cursor(log.connection).execute(statement.encode())
    log.execute("grant select on public.clock to public")
    log.execute("grant usage on all sequences in schema public to public")
    log.fill(segments=1)
    removed = remove_archived(log, config)
    run(make_conninfo(dsn, options="-c role=queen_pipeline"))
    assert log.messages() == removed
