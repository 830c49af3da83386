"""Spark with Iceberg's runtime reads, streams and commits archives through Queen's catalog."""

# pyright: basic
import json
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.dataset as ds
import pytest

from queen.lake.iceberg import IcebergLake
from queen.pipelines import archive, compact
from queen.pipelines.archive import Config
from queen.pipelines.tasks import LOCAL
from tests.spark.lakes.iceberg_runtime import IcebergSpark, SparkError
from tests.spark.lakes.object_store import FaultProxy
from tests.spark.lakes.test_typed import FULL, SCHEMA, Schema, change_schema, query, rows
from tests.spark.log import Identity, Log, identity
from tests.spark.pipelines.test_archive import archived
from tests.support.callers import KEYS, make_key
from tests.support.server import Server

# `make iceberg-runtime` downloads 450 MB.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1_800)]
TABLE = "lake.queen.orders"
WHOLE: dict[str, Schema] = {
    "added": {**SCHEMA["properties"], "region": {"type": "string"}},
    "retyped": {**SCHEMA["properties"], "total": {"type": "string"}},
    "nested": {
        **SCHEMA["properties"],
        "address": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
        },
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}}},
        },
    },
}
"""The properties after each evolution of the schema."""


@pytest.fixture(scope="module")
def spark() -> Iterator[IcebergSpark]:
    with IcebergSpark() as spark:
        yield spark


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS) as server:
        yield server


@pytest.fixture
async def catalog(
    request: pytest.FixtureRequest, dsn: str, server: Server, spark: IcebergSpark
) -> str:
    """A catalog for Spark with a token for all of orders. Spark caches catalogs by their name."""
    name = f"lake{abs(hash(dsn))}"
    token = await make_key(dsn, scopes=[{"queue": "orders"}])
    spark.connect(name, server.base_url, token)
    return name


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    with Log(dsn, "orders", schema=SCHEMA) as log:
        yield log


@pytest.fixture
def config(dsn: str, tmp_path: Path) -> Config:
    return Config(dsn=dsn, queue="orders", location=str(tmp_path / "lake"), tasks=1)


@pytest.fixture
def table(catalog: str, log: Log, config: Config) -> str:
    """The name of an archived table with two messages."""
    log.push("a", [{"n": 0}, {"n": 1}])
    archive.run(LOCAL, config)
    return f"{catalog}.queen.orders"


def evolve(log: Log, config: Config) -> None:
    """Archive messages and misfits of four versions of the schema."""
    log.push("a", [FULL, {"id": 2, "name": None, "tags": []}, {"id": "3"}, {"name": "Bob"}, "text"])
    archive.run(LOCAL, config)
    values = {
        "added": [{"id": 10, "region": "eu"}, {"id": 11, "region": 1}],
        "retyped": [{"id": 20, "total": "many"}, {"id": 21, "total": 2.5}],
        "nested": [
            {"id": 30, "address": {"city": "Oslo", "zip": 1}, "items": [{"sku": "x"}, {}]},
            {"id": 31, "items": "none"},
        ],
    }
    for name, properties in WHOLE.items():
        change_schema(log, {**SCHEMA, "properties": properties})
        log.push("a", values[name])
        log.push("b", values[name])
        archive.run(LOCAL, config)


def portable(value: Any) -> Any:  # noqa: ANN401 - JSON
    """As Spark's process sends values."""
    if isinstance(value, dict):
        return {name: portable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [portable(each) for each in value]
    return value.isoformat() if isinstance(value, date | datetime) else value


def in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def test_a_typed_table_has_the_same_values_for_all_readers(
    spark: IcebergSpark, catalog: str, log: Log, config: Config
) -> None:
    config = msgspec.structs.replace(config, typed=True)
    evolve(log, config)
    table = f"{catalog}.queen.orders"

    by_spark = in_order(spark.query(f"select * from {table}"))

    assert by_spark == portable(in_order(rows(config)))
    names = ["partition", "offset", "payload", "createdAt", "data", "misfit"]
    columns = ", ".join(f'"{name}"' for name in names)
    by_duckdb = query(config, f'select {columns} from t order by partition, "offset"')
    assert portable([list(row) for row in by_duckdb]) == [
        [row[name] for name in names] for row in by_spark
    ]
    assert len(by_spark) == len(log.messages()) == 17
    assert sum(row["misfit"] is not None for row in by_spark) == 9
    assert {row["data"]["total_string"] for row in by_spark if row["data"]} == {None, "many"}
    compact.run(LOCAL, compact.Config(dsn=config.dsn, name="orders"))
    assert in_order(spark.query(f"select * from {table}")) == by_spark


def test_spark_filters_by_fields_days_and_snapshots(
    spark: IcebergSpark, catalog: str, log: Log, config: Config
) -> None:
    evolve(log, msgspec.structs.replace(config, typed=True))
    table = f"{catalog}.queen.orders"

    def count(where: str, of: str = table) -> int:
        (row,) = spark.query(f"select count(*) as n from {of} {where}")
        return row["n"]

    assert count("where misfit is not null") == 9
    assert count("where data.id >= 20") == 4
    assert count("where data.items[0].sku = 'x'") == 2
    assert count("where createdAt >= current_date() - 1") == 17
    assert count("where createdAt > current_date() + 2") == 0
    oldest = spark.query(f"select snapshot_id as id from {table}.snapshots order by committed_at")
    assert count("", f"{table} version as of {oldest[0]['id']}") == 5


def streamed(folder: Path) -> list[Identity]:
    """The messages that a stream has written, each as often as it did."""
    found = ds.dataset(folder / "output", format="parquet").to_table()
    columns = (found.column(name).to_pylist() for name in ("partition", "offset", "payload"))
    return sorted(identity(*row) for row in zip(*columns, strict=True))


def test_a_stream_has_each_message_once_despite_compaction_and_expiry(
    spark: IcebergSpark, catalog: str, log: Log, config: Config, tmp_path: Path
) -> None:
    """Manifests are merged when there are 40, so the stream passes a merge too."""
    config = msgspec.structs.replace(config, max_snapshots=20)
    table, number = f"{catalog}.queen.orders", 0
    for commits in (1, 12, 5, 0, 16, 1, 14):
        for _ in range(commits):
            log.push_all({"a": [{"n": number}], "b": [{"n": number}, {"n": -number}]})
            archive.run(LOCAL, config)
            number += 1
        if commits % 2 == 0:
            compact.run(LOCAL, compact.Config(dsn=config.dsn, name="orders"))
        spark.drain(table, tmp_path / "stream")
        assert streamed(tmp_path / "stream") == log.messages()
    assert archived(config) == log.messages()
    states = spark.query(f"select operation, count(*) as n from {table}.snapshots group by all")
    assert sum(each["n"] for each in states) <= 21  # That of the last compaction counts too.


def test_a_stream_behind_the_oldest_snapshot_stops(
    spark: IcebergSpark, table: str, log: Log, config: Config, tmp_path: Path
) -> None:
    config = msgspec.structs.replace(config, max_snapshots=5)
    spark.drain(table, tmp_path / "stream")
    before = streamed(tmp_path / "stream")
    for number in range(8):
        log.push("a", [{"n": number}])
        archive.run(LOCAL, config)

    with pytest.raises(SparkError, match="expired"):
        spark.drain(table, tmp_path / "stream")

    assert streamed(tmp_path / "stream") == before


def test_a_stream_that_drains_stops_when_its_first_snapshot_is_expired(
    spark: IcebergSpark, table: str, log: Log, config: Config, tmp_path: Path
) -> None:
    """Iceberg 1.12 checks the first snapshot. An endless stream continues from its checkpoint."""
    config = msgspec.structs.replace(config, max_snapshots=5)
    for number in range(8):
        if number in (0, 4, 7):
            spark.drain(table, tmp_path / "stream")
        log.push("a", [{"n": number}])
        archive.run(LOCAL, config)

    with pytest.raises(SparkError, match="expired"):
        spark.drain(table, tmp_path / "stream", available_now=True)

    spark.drain(table, tmp_path / "stream")
    assert streamed(tmp_path / "stream") == log.messages()


def test_a_new_stream_starts_at_the_oldest_snapshot(
    spark: IcebergSpark, table: str, log: Log, config: Config, tmp_path: Path
) -> None:
    config = msgspec.structs.replace(config, max_snapshots=3)
    for number in range(6):
        log.push("a", [{"n": number}])
        archive.run(LOCAL, config)

    spark.drain(table, tmp_path / "stream")

    assert streamed(tmp_path / "stream") == log.messages()[-3:]


async def test_a_reader_can_read_but_not_commit(
    spark: IcebergSpark, dsn: str, server: Server, table: str
) -> None:
    spark.connect(f"{table[:-13]}_read", server.base_url, await make_key(dsn, role="read-only"))
    reader = f"{table[:-13]}_read.queen.orders"

    assert spark.query(f"select count(*) as n from {reader}") == [{"n": 2}]
    with pytest.raises(SparkError, match="ForbiddenException"):
        spark.query(f"insert into {reader} select * from {reader}")

    assert spark.query(f"select count(*) as n from {reader}") == [{"n": 2}]


async def test_a_token_of_another_tenant_sees_no_table(
    spark: IcebergSpark, dsn: str, server: Server, table: str
) -> None:
    other = f"{table[:-13]}_other"
    token = await make_key(dsn, scopes=[{"queue": "bank.*"}])
    spark.connect(other, server.base_url, token)

    assert spark.query(f"show tables in {other}.queen") == []
    for statement in (
        f"select * from {other}.queen.orders",
        f"select * from {other}.queen.orders.snapshots",
        f"insert into {other}.queen.orders select * from {table}",
        f"call {other}.system.expire_snapshots(table => 'queen.orders')",
    ):
        with pytest.raises(SparkError, match=r"(?i)not be found|not found|does not exist"):
            spark.query(statement)


def test_an_append_and_maintenance_commit_and_the_archive_continues(
    spark: IcebergSpark, table: str, log: Log, config: Config
) -> None:
    catalog = table.partition(".")[0]
    for number in range(3):
        log.push("b", [{"n": number}])
        archive.run(LOCAL, config)
    added = "select queue, 'spark' as partition, offset, id, transactionId, payload, headers"
    spark.query(f"insert into {table} {added}, traceId, createdAt from {table} where offset = 0")

    def call(procedure: str, more: str = "") -> dict[str, Any]:
        (row,) = spark.query(f"call {catalog}.system.{procedure}(table => 'queen.orders'{more})")
        return row

    files = len(spark.query(f"select file_path from {table}.files"))
    all_files = ", options => map('rewrite-all', 'true')"
    assert call("rewrite_data_files", all_files)["rewritten_data_files_count"] == files
    call("rewrite_manifests")
    expired = call("expire_snapshots", ", older_than => now(), retain_last => 1")
    assert expired["deleted_manifest_lists_count"] > 0

    log.push("b", [{"n": 3}])
    assert archive.run(LOCAL, config).rows == 1
    compact.run(LOCAL, compact.Config(dsn=config.dsn, name="orders"))
    with IcebergLake(config.dsn, "orders", config.location) as lake:
        found = lake.load().scan().to_arrow().to_pylist()
    messages = [identity(row["partition"], row["offset"], row["payload"]) for row in found]
    assert sorted(each for each in messages if each.partition != "spark") == log.messages()
    assert [each.offset for each in messages if each.partition == "spark"] == [0, 0]
    assert len(spark.query(f"select * from {table}")) == len(messages) == 8
    assert json.loads(found[0]["payload"])


def test_deletes_and_evolutions_of_spark_stop_no_archive(
    spark: IcebergSpark, table: str, log: Log, config: Config, tmp_path: Path
) -> None:
    spark.drain(table, tmp_path / "stream")
    spark.query(f"alter table {table} add column region string")
    spark.query(f"update {table} set region = 'eu' where offset = 0")
    spark.query(f"delete from {table} where offset = 1")
    log.push("a", [{"n": 2}])
    archive.run(LOCAL, config)
    compact.run(LOCAL, compact.Config(dsn=config.dsn, name="orders"))

    found = spark.query(f"select offset, region from {table} order by offset")

    assert found == [{"offset": 0, "region": "eu"}, {"offset": 2, "region": None}]
    with pytest.raises(SparkError, match="overwrite"):
        spark.drain(table, tmp_path / "stream")


async def test_a_commit_is_repeated_after_a_conflict(
    spark: IcebergSpark, dsn: str, server: Server, table: str, log: Log, config: Config
) -> None:
    posts = 0

    def overtake(_: int, method: str) -> None:
        nonlocal posts
        posts += method == "POST"
        if (method, posts) == ("POST", 1):
            log.push("a", [{"n": 2}])
            archive.run(LOCAL, config)

    with FaultProxy(server.base_url, overtake) as proxy:
        spark.connect(f"{table[:-13]}_proxy", proxy.url, await make_key(dsn))
        spark.query(
            f"insert into {table[:-13]}_proxy.queen.orders select * from {table} where offset = 0"
        )

    assert posts == 2
    found = spark.query(f"select offset from {table} order by offset")
    assert [row["offset"] for row in found] == [0, 0, 1, 2]


async def test_a_session_continues_when_iceberg_expects_the_token_to_expire(
    spark: IcebergSpark, dsn: str, server: Server, table: str
) -> None:
    """After an hour, it asks for another token at a path that Queen's catalog doesn't have."""
    asked = threading.Event()

    def note(_: int, method: str) -> None:
        if method == "POST":
            asked.set()

    with FaultProxy(server.base_url, note) as proxy:
        name = f"{table[:-13]}_old"
        spark.connect(name, proxy.url, await make_key(dsn), **{"token-expires-in-ms": "1"})
        assert spark.query(f"select count(*) as n from {name}.queen.orders") == [{"n": 2}]
        assert asked.wait(60)

        assert spark.query(f"select count(*) as n from {name}.queen.orders") == [{"n": 2}]


@pytest.mark.parametrize("statement", ["drop table {}", "alter table {} rename to {}x"])
def test_a_table_cannot_be_dropped_or_renamed(
    spark: IcebergSpark, table: str, statement: str
) -> None:
    with pytest.raises(SparkError):
        spark.query(statement.replace("{}", table))

    assert spark.query(f"select count(*) as n from {table}") == [{"n": 2}]
