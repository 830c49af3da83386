"""Every kind of pipeline runs by its name, with options as users write them, and reports."""

# pyright: basic

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from queen import errors
from queen.engine.engine import Engine
from queen.pipelines import kinds
from queen.pipelines.report import reports
from queen.spark.runner.session import SparkRunner
from queen.wire.resources import Pipeline
from tests.engine.helpers import push


def ran(spark: SparkSession, dsn: str, kind: str, **given: str) -> tuple[Any, Pipeline]:
    """Run a pipeline as the command does, and return its result and its row."""
    job = kinds.job(kind)
    config = kinds.configured(job, given, dsn=dsn)
    name = kinds.name_of(job, config)
    with SparkRunner(spark).reporting(job, config, name) as report:
        done = job.run(spark, config, report=report)
    (row,) = [each for each in reports(dsn, limit=100) if each.name == name]
    assert (row.kind, row.state, row.error) == (kind, "stopped", None)
    return done, row


async def test_pushed_messages_go_to_a_lake_and_back(
    dsn: str, engine: Engine, spark: SparkSession, tmp_path: Path
) -> None:
    await push(engine, "orders", *range(40), partition="a")
    await push(engine, "again", 0)
    location = str(tmp_path / "lake")

    _, archive = ran(spark, dsn, "archive", queue="orders", location=location, tasks="2")
    _, compact = ran(spark, dsn, "compact", name="orders")
    given = {"name": "twice", "from": "orders", "to": "again", "location": location}
    _, replay = ran(spark, dsn, "replay", **given)

    assert (archive.name, archive.queues, archive.target) == (
        "archive-orders",
        ["orders"],
        location,
    )
    assert (archive.rows_total, archive.lag_messages, archive.lag_seconds) == (40, 0, 0)
    assert compact.name == "compact-orders"
    assert (replay.queues, replay.target, replay.rows_total) == (["orders"], "again", 40)


async def test_the_history_is_updated_to_now(dsn: str, engine: Engine, spark: SparkSession) -> None:
    await push(engine, "orders", *range(40))

    done, row = ran(spark, dsn, "rollup", tasks="2")

    assert (row.name, row.queues) == ("rollup", [])
    assert row.detail is not None
    assert row.detail["forgotten"] == done.forgotten


@pytest.mark.parametrize("kind", kinds.MODULES)
def test_every_kind_is_listed_with_its_options(kind: str) -> None:
    job = kinds.job(kind)

    found = kinds.options(job)

    assert [each.name for each in found] == [*job.config.__struct_encode_fields__]
    assert [each.name for each in found if not each.help.endswith(".")] == []
    shown = {word for each in found for word in re.split(r" \| ", each.type)}
    assert shown <= {
        *("bool", "float", "int", "list", "mapping", "str", "time"),
        *("append", "update", "iceberg", "delta", "parquet"),
    }
    assert "None" not in {each.default for each in found}
    with pytest.raises(errors.InvalidOption, match="has no option nothing"):
        kinds.configured(job, {"nothing": "1"}, dsn=None)
