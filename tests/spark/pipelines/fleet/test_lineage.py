"""Runs of pipelines send OpenLineage events, and the server never delays them."""

# pyright: basic
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from queen import errors
from queen.lake.ledger import Ledger
from queen.pipelines import kinds
from queen.pipelines.fleet.declaration import declared
from queen.pipelines.fleet.fleet import Fleet
from queen.pipelines.lineage import Lineage
from queen.pipelines.local import LocalRunner
from tests.spark.log import Log
from tests.spark.pipelines.test_local_engine import queen

DSN = "postgresql://ada:secret@db.example:6432/queues"
QUEUES = "queen://db.example:6432/queues"
URL = "https://openlineage.io/spec/"


class Collector:
    """A lineage server on loopback."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.events: list[dict[str, Any]] = []
        self.headers: list[str | None] = []
        self.paths: list[str] = []
        self.release = threading.Event()
        if not hangs:
            self.release.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.release.wait(30)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.events.append(json.loads(body))
                collector.headers.append(self.headers["Authorization"])
                collector.paths.append(self.path)
                self.send_response(201)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @contextmanager
    def running(self) -> Iterator["Collector"]:
        self._thread.start()
        try:
            yield self
        finally:
            self.release.set()
            self._server.shutdown()
            self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector().running() as collector:
        yield collector


def check(event: dict[str, Any]) -> None:
    """The rules of the OpenLineage specification for a RunEvent and its facets."""
    assert {"eventType", "eventTime", "producer", "schemaURL", "run", "job"} <= event.keys()
    assert event["eventType"] in ("START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER")
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert event["schemaURL"].startswith(URL)
    UUID(event["run"]["runId"])
    assert event["job"]["namespace"]
    assert event["job"]["name"]
    datasets = [*event["inputs"], *event["outputs"]]
    assert all(each["namespace"] and each["name"] for each in datasets)
    holders = [event["run"], event["job"], *datasets]
    for facet in (facet for each in holders for facet in each.get("facets", {}).values()):
        assert facet["_producer"] == event["producer"]
        assert facet["_schemaURL"].startswith(f"{URL}facets/")


KINDS = [
    (
        "archive",
        {"queue": "orders", "location": "s3://key:pass@lake/raw/orders"},
        [(QUEUES, "orders")],
        [("s3://lake", "raw/orders")],
    ),
    (
        "replay",
        {"name": "again", "from": "orders", "to": "other"},
        [(QUEUES, "orders")],
        [(QUEUES, "other")],
    ),
    (
        "replay",
        {"name": "again", "from": "orders", "to": "other", "location": "/lake/orders"},
        [("file", "/lake/orders")],
        [(QUEUES, "other")],
    ),
    ("rollup", {}, [], [("postgres://db.example:6432", "queues.queen.rollups")]),
    (
        "window",
        {
            "name": "per-minute",
            "from": "orders",
            "to": "totals",
            "window": {"tumbling": "1 minute"},
            "aggregate": {"total": "sum(total)"},
            "by": ["customer"],
            "checkpoint": "/checkpoint",
        },
        [(QUEUES, "orders")],
        [(QUEUES, "totals")],
    ),
    (
        "transform",
        {
            "name": "large",
            "from": "orders",
            "to": "other",
            "sql": "select payload from messages",
            "checkpoint": "/checkpoint",
        },
        [(QUEUES, "orders")],
        [(QUEUES, "other")],
    ),
    # The database, which knows the lake, is unavailable.
    ("compact", {"name": "orders"}, [], []),
    ("recall", {"queue": "orders"}, [], [(QUEUES, "orders")]),
]


def test_every_kind_is_tested() -> None:
    assert {kind for kind, *_ in KINDS} == {*kinds.MODULES}


@pytest.mark.parametrize(("kind", "given", "inputs", "outputs"), KINDS)
def test_each_kind_names_its_inputs_and_outputs(
    collector: Collector,
    kind: str,
    given: dict[str, Any],
    inputs: list[tuple[str, str]],
    outputs: list[tuple[str, str]],
) -> None:
    job = kinds.job(kind)
    config = kinds.configured(job, given, dsn=DSN)
    environment = {"OPENLINEAGE_URL": collector.url, "OPENLINEAGE_API_KEY": "key"}

    with Lineage(environment) as lineage:
        with lineage.run(job, config, "one"):
            pass
        with pytest.raises(errors.DataLost), lineage.run(job, config, "two"):
            raise errors.DataLost(f"no {DSN}")
        with pytest.raises(SystemExit), lineage.run(job, config, "three"):
            raise SystemExit

    told = [(each["job"]["name"], each["eventType"]) for each in collector.events]
    assert told == [
        *(("one", "START"), ("one", "COMPLETE")),
        *(("two", "START"), ("two", "FAIL")),
        *(("three", "START"), ("three", "ABORT")),
    ]
    for event in collector.events:
        check(event)
        assert [(each["namespace"], each["name"]) for each in event["inputs"]] == inputs
        assert [(each["namespace"], each["name"]) for each in event["outputs"]] == outputs
    assert "secret" not in json.dumps(collector.events)
    assert "pass" not in json.dumps(collector.events)
    (failed,) = [each for each in collector.events if each["eventType"] == "FAIL"]
    assert failed["run"]["facets"]["errorMessage"]["message"].startswith("DataLost: no postgresql")
    assert set(collector.headers) == {"Bearer key"}
    assert set(collector.paths) == {"/api/v1/lineage"}
    if kind == "window":
        (output,) = failed["outputs"]
        fields = [each["name"] for each in output["facets"]["schema"]["fields"]]
        assert fields == ["start", "end", "customer", "total"]


@pytest.mark.parametrize("kind", ["compact", "recall"])
def test_the_lake_of_an_archive_is_named(
    dsn: str, collector: Collector, tmp_path: Path, kind: str
) -> None:
    location = str(tmp_path / "lake")
    given = {"compact": {"name": "orders"}, "recall": {"queue": "orders"}}[kind]
    with Log(dsn, "orders") as log, Ledger(dsn) as ledger:
        log.push("a", [1])
        ledger.open("orders", "orders", "iceberg", location)
    job = kinds.job(kind)
    config = kinds.configured(job, given, dsn=dsn)

    with Lineage({"OPENLINEAGE_URL": collector.url}) as lineage, lineage.run(job, config, "one"):
        pass

    assert collector.events
    for event in collector.events:
        check(event)
        (output,) = event["outputs"]
        assert [(each["namespace"], each["name"]) for each in event["inputs"]] == [
            ("file", location)
        ]
        assert output["name"] == (location if kind == "compact" else "orders")
        assert output["facets"]["schema"]["fields"]


def test_archives_of_a_fleet_send_events(dsn: str, collector: Collector, tmp_path: Path) -> None:
    given = [{"kind": "archive", "queues": "orders-*", "location": f"{tmp_path}/{{queue}}"}]
    with Log(dsn, "orders-eu") as log:
        log.fill(segments=1)
        declaration = declared({"pipelines": given}, dsn=dsn, is_local=True)

        with (
            Lineage({"OPENLINEAGE_URL": collector.url}) as lineage,
            Fleet(declaration, LocalRunner(), print_line=print, lineage=lineage) as fleet,
        ):
            fleet.run()

    assert [each["eventType"] for each in collector.events] == ["START", "COMPLETE"]
    (output,) = collector.events[-1]["outputs"]
    assert output["name"] == f"{tmp_path}/orders-eu"
    fields = {each["name"]: each["type"] for each in output["facets"]["schema"]["fields"]}
    assert (fields["offset"], fields["payload"]) == ("bigint", "string")


def test_the_command_sends_events(
    dsn: str, collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["--set", "queue=orders", "--set", f"location={tmp_path / 'lake'}"]
    with Log(dsn, "orders") as log:
        log.fill(segments=1)
        environment = {"OPENLINEAGE_URL": collector.url, "OPENLINEAGE_NAMESPACE": "shop"}
        done = queen(dsn, "pipeline", "archive", "--engine", "local", *given, **environment)

    assert done.returncode == 0, done.stderr
    told = [(each["job"]["namespace"], each["eventType"]) for each in collector.events]
    assert told == [("shop", "START"), ("shop", "COMPLETE")]


def test_a_server_that_hangs_or_is_unavailable_delays_no_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("queen.pipelines.lineage._CLOSE_SECONDS", 0.2)
    monkeypatch.setattr("queen.pipelines.lineage._MOST_EVENTS", 10)
    job = kinds.job("rollup")
    config = kinds.configured(job, {}, dsn=DSN)
    began_at = time.monotonic()

    with (
        Collector(hangs=True).running() as collector,
        Lineage({"OPENLINEAGE_URL": collector.url}) as lineage,
    ):
        for _ in range(20):  # More events than may wait.
            with lineage.run(job, config, "rollup"):
                pass
        assert time.monotonic() - began_at < 5  # One request may take this long.
    unavailable = {"OPENLINEAGE_URL": "http://127.0.0.1:1"}
    with Lineage(unavailable) as lineage, lineage.run(job, config, "rollup"):
        pass

    assert len(caplog.messages) == 2, caplog.messages
    assert all(each.startswith("OpenLineage: ") for each in caplog.messages)


def test_without_a_url_no_event_is_sent_and_a_wrong_one_is_rejected() -> None:
    before = threading.active_count()
    job = kinds.job("rollup")
    for environment in ({}, {"OPENLINEAGE_URL": "http://h", "OPENLINEAGE_DISABLED": "true"}):
        with Lineage(environment) as lineage, lineage.run(job, None, "rollup"):
            assert threading.active_count() == before
    with pytest.raises(errors.BadSettings, match="OPENLINEAGE_URL"):
        Lineage({"OPENLINEAGE_URL": "ftp://h"})
