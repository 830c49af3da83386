"""A transform writes the rows of a statement to a queue, each once, also in a fleet."""

# pyright: basic
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from queen import errors
from queen.pipelines.fleet.declaration import declared
from queen.pipelines.fleet.fleet import Fleet
from queen.pipelines.lineage import Lineage
from queen.pipelines.report import reports
from queen.spark.pipelines import transform
from queen.spark.pipelines.transform import Config
from queen.spark.runner.session import SparkRunner
from tests.spark import filling
from tests.spark.log import Log
from tests.spark.pipelines.test_replay import by_partition

STATE_STORE = "spark.sql.streaming.stateStore"
SQL = "select who as partition, who, amount * 2 as twice from messages where amount > 1"
ORDERS = [{"who": who, "amount": amount} for who in ("ada", "bob") for amount in (1, 2, 3)]
DOUBLED = {who: [{"who": who, "twice": 4}, {"who": who, "twice": 6}] for who in ("ada", "bob")}


def config_of(dsn: str, tmp_path: Path, **others: Any) -> Config:  # noqa: ANN401
    given: dict[str, Any] = {
        "name": "double",
        "schema": "who string, amount bigint",
        "sql": SQL,
        "checkpoint": str(tmp_path / "checkpoint"),
        "once": True,
    }
    return Config(dsn=dsn, from_queue="orders", to_queue="doubled", **(given | others))


@pytest.fixture
def queues(dsn: str) -> None:
    with Log(dsn, "orders") as log:
        filling.make(dsn, "doubled")
        log.push("any", ORDERS[:4])
        log.push("any", ORDERS[4:])


@pytest.mark.nightly
def test_rows_are_published_once_also_without_the_checkpoint(
    spark: SparkSession, dsn: str, queues: None, tmp_path: Path
) -> None:
    config = config_of(dsn, tmp_path, max_messages_per_trigger=1)
    transform.run(spark, config)
    assert by_partition(dsn, "doubled") == DOUBLED

    transform.run(spark, config)
    transform.run(spark, config_of(dsn, tmp_path / "other", max_messages_per_trigger=1))

    assert by_partition(dsn, "doubled") == DOUBLED


def test_a_statement_that_spark_rejects_is_an_invalid_option(
    spark: SparkSession, dsn: str, queues: None, tmp_path: Path
) -> None:
    for statement in ("selct 1", "select missing from messages", "select count(*) from messages"):
        with pytest.raises(errors.InvalidOption, match="the transform double is invalid"):
            transform.run(spark, config_of(dsn, tmp_path, sql=statement))


def test_a_changed_statement_is_rejected_and_state_fits_the_session(
    spark: SparkSession, dsn: str, queues: None, tmp_path: Path
) -> None:
    transform.run(spark, config_of(dsn, tmp_path))

    offset = (tmp_path / "checkpoint" / "offsets" / "0").read_text("utf-8")
    conf = json.loads(offset.splitlines()[1])["conf"]
    assert conf[f"{STATE_STORE}.providerClass"].endswith("RocksDBStateStoreProvider")
    for checkpoint in (tmp_path, tmp_path / "other"):
        with pytest.raises(errors.InvalidOption, match=r"sql: the transform double began with"):
            transform.run(spark, config_of(dsn, checkpoint, sql=f"{SQL} and amount < 3"))
    assert by_partition(dsn, "doubled") == DOUBLED


def test_a_payload_column_is_the_payload(
    spark: SparkSession, dsn: str, queues: None, tmp_path: Path
) -> None:
    statement = "select partition, payload, map('a', 'b') as headers from messages"
    transform.run(spark, config_of(dsn, tmp_path, sql=statement, schema=None))

    assert by_partition(dsn, "doubled") == {"any": ORDERS}


def test_a_fleet_runs_transforms_and_archives_in_one_session(
    spark: SparkSession, dsn: str, queues: None, tmp_path: Path
) -> None:
    filling.make(dsn, "small")
    shared = {"kind": "transform", "schema": "who string, amount bigint", "from": "orders"}
    given = [
        {**shared, "name": "double", "to": "doubled", "sql": SQL,
         "checkpoint": f"{tmp_path}/double", "once": True},
        {**shared, "name": "small", "to": "small", "checkpoint": f"{tmp_path}/small", "once": True,
         "sql": "select who from messages where amount = 1"},
        {**shared, "name": "wrong", "to": "small", "sql": "select missing from messages",
         "checkpoint": f"{tmp_path}/wrong", "once": True},
        {"kind": "archive", "queue": "orders", "location": f"{tmp_path}/lake", "tasks": 1},
    ]  # fmt: skip
    declaration = declared({"pipelines": given}, dsn=dsn, is_local=False)
    said: list[str] = []

    with Fleet(
        declaration, SparkRunner(spark), print_line=said.append, lineage=Lineage({})
    ) as fleet:
        fleet.run()

    assert fleet.summary() == "4 pipelines: 1 archived, lag 0; 2 transformed, lag 0; 1 failed", said
    assert by_partition(dsn, "doubled") == DOUBLED
    assert by_partition(dsn, "small") == {"Default": [{"who": "ada"}, {"who": "bob"}]}
    rows = {each.name: each for each in reports(dsn, limit=10)}
    assert {name: row.rows_total for name, row in rows.items() if row.state == "stopped"} == {
        "archive-orders": 6,
        "transform-double": 6,
        "transform-small": 6,
    }
    assert "missing" in (rows["transform-wrong"].error or "")
