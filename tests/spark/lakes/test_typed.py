"""A typed table has the properties of a queue's schema as fields, and reasons for misfits."""

# pyright: basic
import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import duckdb
import msgspec
import psycopg
import pytest
from pyspark.sql import SparkSession

from queen import errors
from queen.lake import open_lake
from queen.lake.iceberg import IcebergLake
from queen.pipelines import archive, compact
from queen.pipelines.archive import Config, Progress
from queen.pipelines.tasks import LOCAL, Engine
from queen.spark.pipelines import replay
from tests.spark import filling, windowing
from tests.spark.log import Log
from tests.spark.pipelines.test_archive import STEPS, Crash, archived

CURRENCIES = ["EUR", "USD", "GBP"]
Schema = dict[str, Any]
SCHEMA: Schema = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "total": {"type": "number"},
        "paid": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "due": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}},
        "rest": {"type": "object"},
    },
}
FULL = {
    "id": 1,
    "name": "Ada",
    "total": 12.5,
    "paid": True,
    "at": "2026-11-18T12:00:00.25Z",
    "due": "2026-12-01",
    "tags": ["new", "large"],
    "address": {"city": "Berlin", "zip": "10115"},
    "rest": {"a": [1, 2]},
    "other": 1,
}


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    with Log(dsn, "orders", schema=SCHEMA) as log:
        yield log


@pytest.fixture
def config(dsn: str, tmp_path: Path) -> Config:
    return Config(dsn=dsn, queue="orders", location=str(tmp_path / "lake"), tasks=2, typed=True)


def change_schema(log: Log, schema: Schema | None) -> None:
    log.execute(
        "select queen.configure('orders', null, null, $1::text::jsonb, false, null, null)",
        json.dumps({"schema": schema}),
    )


def properties(**types: str) -> Schema:
    """A schema with properties of these types."""
    return {"type": "object", "properties": {name: {"type": each} for name, each in types.items()}}


def rows(config: Config) -> list[dict[str, Any]]:
    """The rows of an Iceberg table in the order of their offsets, read by pyiceberg."""
    with IcebergLake(config.dsn, config.name or config.queue, config.location) as lake:
        return lake.load().scan().to_arrow().sort_by("offset").to_pylist()


def query(config: Config, text: str) -> list[tuple[Any, ...]]:
    """Query the files of the current state as the view `t`, by DuckDB."""
    name, place = config.name or config.queue, config.location
    with open_lake(config.dsn, name=name, format=config.format, location=place) as lake:
        paths = ", ".join(f"'{file.path}'" for file in lake.files())
    with duckdb.connect() as connection:
        connection.execute("set threads = 1; set timezone = 'UTC'")
        connection.execute(
            f"create view t as from read_parquet([{paths}], union_by_name = true,"
            " hive_partitioning = false)"
        )
        return connection.execute(text).fetchall()


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_properties_are_fields_and_misfits_have_reasons(
    task_engine: Engine, log: Log, config: Config, format: Literal["iceberg", "delta"]
) -> None:
    config = msgspec.structs.replace(config, format=format)
    log.push(
        "a", [FULL, {"id": 2, "name": None}, {"id": "3"}, {"name": "Bob"}, "text", {"id": 5.0}]
    )

    done = archive.run(task_engine, config)

    assert str(done) == "archived 6 messages in 1 file, 3 misfits"
    found = query(config, 'select data, misfit, payload from t order by "offset"')
    assert found[0][0] == {
        **{name: value for name, value in FULL.items() if name != "other"},
        "at": datetime(2026, 11, 18, 12, 0, 0, 250_000, tzinfo=UTC),
        "due": datetime(2026, 12, 1).date(),
        "address": {"city": "Berlin"},
        "rest": '{"a": [1, 2]}',
    }
    assert found[1][0] == {**dict.fromkeys(SCHEMA["properties"]), "id": 2}
    assert found[5][0]["id"] == 5
    assert [row[1] for row in found] == [
        None,
        None,
        "$.id: Expected `int`, got `str`",
        "Object missing required field `id`",
        "Expected `object`, got `str`",
        None,
    ]
    assert [row[0] is None for row in found] == [row[1] is not None for row in found]
    assert json.loads(found[0][2]) == FULL
    assert archived(config) == log.messages()


def test_pyiceberg_reads_the_same_rows(task_engine: Engine, log: Log, config: Config) -> None:
    log.push("a", [FULL, {"id": "3"}])
    archive.run(task_engine, config)

    one, two = rows(config)

    assert one["data"]["tags"] == ["new", "large"]
    assert one["data"]["address"] == {"city": "Berlin"}
    assert (one["misfit"], two["data"]) == (None, None)
    assert two["misfit"] == "$.id: Expected `int`, got `str`"
    with IcebergLake(config.dsn, "orders", config.location) as lake:
        assert lake.load().scan("data.id == 1").to_arrow().num_rows == 1


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_after_any_step_loses_and_repeats_no_message(
    task_engine: Engine, log: Log, config: Config, step: str
) -> None:
    config = msgspec.structs.replace(config, max_messages=4)

    def report(progress: Progress) -> None:
        if progress.step == step:
            raise Crash

    for number in range(6):
        log.push("a", [{"id": number}, {"id": "x"}])
    for _ in range(2):
        with pytest.raises(Crash):
            archive.run(task_engine, config, report=report)
    change_schema(log, properties(id="integer", more="string"))
    log.push("a", [{"id": 6, "more": "m"}, {"id": "x"}])
    archive.run(task_engine, config)

    assert archived(config) == log.messages()
    found = query(config, "select data.id, data.more, misfit is not null from t order by all")
    assert found == [
        *((number, None, False) for number in range(6)),
        (6, "m", False),
        *[(None, None, True)] * 7,
    ]


@pytest.mark.parametrize("format", ["iceberg", pytest.param("delta", marks=pytest.mark.nightly)])
def test_a_changed_schema_adds_fields_and_never_changes_one(
    task_engine: Engine, log: Log, config: Config, format: Literal["iceberg", "delta"]
) -> None:
    config = msgspec.structs.replace(config, format=format)
    nested = {"type": "object", "properties": {"list": {"type": "array", "items": {}}}}
    versions = [
        (properties(id="integer", total="integer"), {"id": 0, "total": 1}),
        (properties(id="integer", total="string"), {"id": 1, "total": "two"}),
        (properties(id="integer", total="number", total_string="boolean"), {"id": 2, "total": 2.5}),
        (properties(id="integer", total="integer"), {"id": 3, "total": 4}),
        ({"properties": {"id": {"type": "integer"}, "total": nested}}, {"id": 4, "total": {}}),
        ({"properties": {"id": {"type": "integer"}, "total": {}}}, {"id": 5, "total": [1]}),
    ]
    for schema, payload in versions:
        change_schema(log, schema)
        log.push("a", [payload])
        assert archive.run(task_engine, config).misfits == 0

    found = query(
        config,
        "select data.id, data.total, data.total_string, data.total_number, data.total_struct.list,"
        " data.total_struct is null, data.total_json from t order by data.id",
    )
    assert found == [
        (0, 1, None, None, None, True, None),
        (1, None, "two", None, None, True, None),
        (2, None, None, 2.5, None, True, None),
        (3, 4, None, None, None, True, None),
        (4, None, None, None, None, False, None),
        (5, None, None, None, None, True, "[1]"),
    ]
    assert archived(config) == log.messages()


@pytest.mark.parametrize("format", ["iceberg", pytest.param("delta", marks=pytest.mark.nightly)])
def test_an_evolved_table_is_compacted(
    task_engine: Engine, log: Log, config: Config, format: Literal["iceberg", "delta"]
) -> None:
    item = {"type": "object", "properties": {"x": {"type": "integer"}}}
    wider = {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "number"}}}
    config = msgspec.structs.replace(config, format=format, typed=False)
    log.push("a", [{"id": -1}])
    archive.run(task_engine, config)
    config = msgspec.structs.replace(config, typed=True)
    for number, part in enumerate((item, wider)):
        change_schema(
            log,
            {
                "properties": {
                    "id": {"type": "integer"},
                    "items": {"type": "array", "items": part},
                    "one": part,
                }
            },
        )
        value = {"x": number if part is item else "s", "y": 0.5}
        rows = [{"id": number, "items": [value, {}], "one": value}, {"id": "misfit"}]
        # Null, empty and missing are different.
        log.push("a", [*rows, {"id": 10 + number, "items": []}, {"id": 20 + number}])
        archive.run(task_engine, config)
    text = 'select "offset", data, misfit from t order by "offset"'
    before = query(config, text)

    done = compact.run(task_engine, compact.Config(dsn=config.dsn, name="orders"))

    assert (done.replaced, done.made, done.rows) == (3, 1, 9)
    assert query(config, text) == before
    assert [row[1] and row[1]["items"] for row in before][3:5] == [[], None]
    assert before[5][1] == {
        "id": 1,
        "items": [
            {"x": None, "x_string": "s", "y": 0.5},
            {"x": None, "x_string": None, "y": None},
        ],
        "one": {"x": None, "x_string": "s", "y": 0.5},
    }
    assert archived(config) == log.messages()
    log.push("a", [{"id": 9}])
    assert archive.run(task_engine, config).rows == 1


@pytest.mark.parametrize(
    ("schema", "changes", "reason"),
    [
        (None, {}, "queue orders has no schema with properties"),
        (SCHEMA, {"format": "parquet"}, "typed needs format iceberg or delta"),
    ],
)
def test_an_archive_that_cannot_be_typed_is_rejected(
    task_engine: Engine,
    log: Log,
    config: Config,
    schema: Schema | None,
    changes: dict[str, Any],
    reason: str,
) -> None:
    change_schema(log, schema)
    log.push("a", [FULL])

    with pytest.raises(errors.InvalidOption, match=reason):
        archive.run(task_engine, msgspec.structs.replace(config, **changes))


def test_the_schema_changes_while_messages_are_pushed(
    task_engine: Engine, log: Log, config: Config, dsn: str
) -> None:
    """The archive goes on as soon as it has archived messages of the last version."""
    config = msgspec.structs.replace(config, interval_seconds=0.01, commit_seconds=0)
    parts = {"name": {"type": "string"}, "at": {"type": "string", "format": "date"}}
    nested = {"type": "object", "properties": parts}
    fields = [("id", {"type": "integer"}), ("name", parts["name"]), ("one", nested)]
    fields.append(("many", {"type": "array", "items": nested}))
    values = {"name": "n", "one": {"at": "2026-11-18"}, "many": [{"name": "m"}]}
    version, is_over = 0, threading.Event()
    seen: set[int] = set()

    def push() -> None:
        with Log(dsn, "orders") as other:
            while not is_over.is_set():
                names = [name for name, _ in fields[1 : version + 1]]
                row = {"id": version, **{name: values[name] for name in names}}
                other.push("a", [row, {"id": version}])

    def report(progress: Progress) -> None:
        nonlocal version
        if progress.step != "archived":
            return
        seen.update(row[0] for row in query(config, "select distinct data.id from t"))
        if len(seen) == len(fields):
            raise Crash
        if version in seen:
            change_schema(log, {"properties": dict(fields[: version + 2])})
            version += 1

    change_schema(log, {"properties": dict(fields[:1])})
    pusher = threading.Thread(target=push)
    pusher.start()
    try:
        with pytest.raises(Crash):
            archive.run(task_engine, config, report=report)
    finally:
        is_over.set()
        pusher.join()
    archive.run(task_engine, msgspec.structs.replace(config, interval_seconds=0))

    assert archived(config) == log.messages()
    found = query(config, "select payload, data from t")
    assert query(config, "select distinct misfit from t") == [(None,)]
    for text, data in found:
        payload = json.loads(text)
        assert data["id"] == payload["id"]
        # The schema changes before the first message of its version.
        assert (data.get("name"), data.get("one") is None, data.get("many") is None) == (
            payload.get("name"),
            "one" not in payload,
            "many" not in payload,
        )


@pytest.mark.nightly
@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_misfits_of_an_evolved_table_are_replayed(
    spark: SparkSession, dsn: str, log: Log, config: Config, format: Literal["iceberg", "delta"]
) -> None:
    config = msgspec.structs.replace(config, format=format)
    filling.make(dsn, "again")
    log.push("a", [FULL, {"id": "1"}])
    archive.run(LOCAL, config)
    change_schema(log, properties(id="string", total="number"))
    log.push("a", [{"id": "2", "total": 5}, {"id": 3}, {"id": "4", "total": 50}])
    archive.run(LOCAL, config)
    given = {"dsn": dsn, "from": "orders", "to": "again", "location": config.location}

    for name, where, wanted in (
        ("misfits", "misfit is not null", [{"id": "1"}, {"id": 3}]),
        ("large", "data.total > 10", [FULL, {"id": "4", "total": 50}]),
    ):
        done = replay.run(
            spark,
            msgspec.convert(
                {**given, "format": format, "name": name, "where": where}, replay.Config
            ),
        )
        assert done.rows == 2
        assert [payload for _, payload in windowing.payloads(dsn, "again")][-2:] == wanted


def fill_sales(dsn: str, messages: int, every: int = 100) -> None:
    """Push messages of about 120 bytes with six fields. One of ``every`` doesn't fit."""
    schema = {
        "type": "object",
        "required": ["id", "customer"],
        "properties": {
            "id": {"type": "integer"},
            "customer": {"type": "string"},
            "total": {"type": "number"},
            "paid": {"type": "boolean"},
            "currency": {"enum": CURRENCIES},
            "at": {"type": "string", "format": "date-time"},
        },
    }
    filling.make(dsn, "sales", schema=schema)
    with psycopg.connect(dsn, autocommit=True) as connection:
        ids = filling.partition_ids(connection, "sales", [f"p{number}" for number in range(8)])
        for start in range(0, messages, 8_000):
            parts = [[sale(start + 8 * n + part, every) for n in range(1_000)] for part in range(8)]
            filling.push(connection, list(ids.values()), parts)


def sale(number: int, every: int) -> bytes:
    key = f'"{number}"' if number % every == 0 else number
    micros, clock = number * 7919 % 1_000_000, number * 31 % 86_400
    at = f"2026-11-18T{clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}.{micros:06d}Z"
    return (
        f'{{"id":{key},"customer":"customer-{number * 7 % 99_991}","total":{number % 99_999 / 100},'
        f'"paid":{str(number % 2 == 1).lower()},"currency":"{CURRENCIES[number % 3]}",'
        f'"at":"{at}"}}'
    ).encode()


@pytest.mark.nightly
def test_a_million_messages_are_typed_within_a_budget_of_processor_time(
    dsn: str, tmp_path: Path
) -> None:
    """The goal is 0.6. Runs on a busy machine with two cores measured 0.46 to 0.55."""
    messages = 1_000_000
    fill_sales(dsn, messages)
    seconds: dict[str, float] = {}
    for name in ("warm-up", "untyped", "typed"):
        config = Config(
            dsn=dsn,
            queue="sales",
            name=name,
            location=str(tmp_path / name),
            typed=name != "untyped",
        )
        began = time.process_time()
        done = archive.run(LOCAL, config)
        seconds[name] = time.process_time() - began
        assert done.misfits == (messages // 100 if config.typed else 0)

    (counts,) = query(
        config,
        "select count(data.id), count(misfit), count(distinct data.id), sum(data.id),"
        " count(*) filter (misfit = '$.id: Expected `int`, got `str`') from t",
    )
    ratio = seconds["untyped"] / seconds["typed"]
    print(f"{ratio:.2f} of the untyped throughput: {seconds}")
    wanted = [number for number in range(messages) if number % 100]
    assert counts == (990_000, 10_000, 990_000, sum(wanted), 10_000)
    assert ratio >= 0.4
