"""Pipelines read a replica that has the needed data, and the primary if it is behind."""

# pyright: basic
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from queen import errors
from queen.arrow.database import connect
from queen.arrow.planning import horizon
from queen.arrow.replicas import check_replica
from queen.pipelines import archive, kinds
from queen.pipelines.archive import Config
from queen.pipelines.tasks import LOCAL
from tests.spark import filling, processes
from tests.spark.databases import migrated
from tests.spark.log import Log
from tests.spark.pipelines.test_archive import archived
from tests.spark.pipelines.test_replay import by_partition
from tests.support.pair import Pair

PATIENCE_SECONDS = 0.3
AGE = "update queen.segments set created_at = created_at - interval '2 minutes'"
"""So that the rollup includes their minute."""
READS = "select count(*) from pg_stat_activity where query ilike 'copy%queen.segments%'"


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair() as pair:
        yield pair


@pytest.fixture
def primary(pair: Pair, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new database on the primary, whose replica replays its WAL."""
    name = f"queen{abs(hash(request.node.name))}"
    yield migrated(pair.primary, name)
    pair.standby.execute("select pg_wal_replay_resume()")


@pytest.fixture
def replica(pair: Pair, primary: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("queen.arrow.replicas._PATIENCE_SECONDS", PATIENCE_SECONDS)
    dsn = pair.standby.dsn(primary.rpartition("/")[2].partition("?")[0])
    follow(primary, dsn)
    return dsn


def follow(primary: str, replica: str) -> None:
    """Wait until the replica has everything."""

    def has_all() -> bool:
        try:
            with connect(primary) as ahead, connect(replica) as behind:
                return horizon(behind) >= horizon(ahead)
        except errors.DatabaseUnavailable:
            return False  # It has no such database yet.

    processes.wait(has_all, 60, lambda: "the replica is behind")


def test_an_archive_reads_the_replica_and_the_primary_while_replay_is_paused(
    pair: Pair, primary: str, replica: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(
        dsn=primary, read_dsn=replica, queue="orders", location=str(tmp_path / "lake"), tasks=2
    )
    with Log(primary, "orders") as log:
        log.fill(segments=3)
        follow(primary, replica)
        archive.run(LOCAL, config)
        assert pair.standby.value(READS)
        assert not pair.primary.value(READS)
        assert caplog.messages == []

        pair.standby.execute("select pg_wal_replay_pause()")
        log.fill(segments=3)
        archive.run(LOCAL, config)

        assert caplog.messages == ["read_dsn: the replica is behind: reading from the primary"]
        assert archived(config) == log.messages()
        pair.standby.execute("select pg_wal_replay_resume()")
        log.fill(segments=1)
        archive.run(LOCAL, config)
        assert archived(config) == log.messages()


def test_an_unavailable_replica_does_not_stop_an_archive(dsn: str, tmp_path: Path) -> None:
    config = Config(
        dsn=dsn,
        read_dsn="postgresql://queen@127.0.0.1:1/queen",
        queue="orders",
        location=str(tmp_path / "lake"),
    )
    with Log(dsn, "orders") as log:
        log.fill(segments=3)

        archive.run(LOCAL, config)

        assert archived(config) == log.messages()


def test_another_database_is_rejected(pair: Pair, primary: str, dsn: str) -> None:
    with connect(primary) as connection:
        check_replica(connection, primary)
        for other in (dsn, pair.primary.dsn("postgres")):
            with pytest.raises(errors.InvalidOption, match="this is another database"):
                check_replica(connection, other)


@pytest.mark.nightly
def test_spark_pipelines_read_the_primary_or_wait_while_replay_is_paused(
    spark: SparkSession, pair: Pair, primary: str, replica: str, tmp_path: Path
) -> None:
    def run(kind: str, **given: object) -> object:
        job = kinds.job(kind)
        config = kinds.configured(job, {"read_dsn": replica, **given}, dsn=primary)
        return job.run(spark, config)

    select = {"from": "orders", "to": "copy", "sql": "select partition, payload from messages"}
    copy = {"name": "copy", **select, "checkpoint": str(tmp_path / "copy"), "once": True}
    with Log(primary, "orders") as log:
        for queue in ("again", "copy"):
            filling.make(primary, queue)
        log.push("a", range(10))
        log.execute(AGE)
        follow(primary, replica)
        run("transform", **copy)
        assert by_partition(primary, "copy") == {"a": [*range(10)]}

        pair.standby.execute("select pg_wal_replay_pause()")
        log.push("a", range(10, 20))
        log.execute(f"{AGE} where base_offset = 10")
        run("replay", name="again", to="again", **{"from": "orders"})
        run("transform", **copy)  # The replica has nothing new.
        run("rollup", tasks=2)

        assert by_partition(primary, "again") == {"a": [*range(20)]}
        assert by_partition(primary, "copy") == {"a": [*range(10)]}
        (row,) = log.execute(
            "select sum(pushed)::bigint as pushed from queen.rollups r join queen.queues q"
            " on q.id = r.queue_id where q.name = 'orders' and r.grain_seconds = 60"
        )
        assert row["pushed"] == 20
        pair.standby.execute("select pg_wal_replay_resume()")
        follow(primary, replica)
        run("transform", **copy)
        assert by_partition(primary, "copy") == {"a": [*range(20)]}
