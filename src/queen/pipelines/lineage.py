"""
Send OpenLineage events about runs of pipelines: their inputs, outputs and errors.

The official client needs two HTTP libraries. An event is one small JSON document, so this module
sends it itself, in a thread. A slow or unavailable server never delays a pipeline.
"""

# pyright: basic
import contextlib
import http.client
import logging
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict

from queen import errors
from queen.arrow.columns import BY_NAME
from queen.arrow.database import Connection, call, connect
from queen.arrow.planning import find_queue
from queen.lake.ledger import archive_of
from queen.pipelines.kinds import Job
from queen.pipelines.report import error_text

_LOG: Final = logging.getLogger("queen.pipelines")
_MOST_EVENTS: Final = 1_000
"""Events that wait for the server. Further ones are dropped."""
_REQUEST_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 5.0
_LOG_SECONDS: Final = 60.0
"""Interval of log lines about a server that does not accept events."""
_EVENT: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS: Final = "https://openlineage.io/spec/facets"
_QUEUE_COLUMNS: Final = ("partition", "payload", "headers", "traceId")
_STOPPED: Final = ("KeyboardInterrupt", "SystemExit", "Stopped")


class Lineage:
    """
    Sends events to a server.

    Usage::

        with Lineage(os.environ) as lineage, lineage.run(job, config, name):
            …  # START before, and COMPLETE, ABORT or FAIL after the block.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Read the standard variables. Without ``OPENLINEAGE_URL``, no events are sent."""
        url = environment.get("OPENLINEAGE_URL", "")
        if url and urlsplit(url).scheme not in ("http", "https"):
            raise errors.BadSettings("OPENLINEAGE_URL: write http://… or https://…")
        if environment.get("OPENLINEAGE_DISABLED", "").lower() == "true":
            url = ""
        endpoint = environment.get("OPENLINEAGE_ENDPOINT", "api/v1/lineage").lstrip("/")
        self._url = f"{url.rstrip('/')}/{endpoint}" if url else None
        self._namespace = environment.get("OPENLINEAGE_NAMESPACE", "queen")
        self._headers = {"Content-Type": "application/json"}
        if key := environment.get("OPENLINEAGE_API_KEY"):
            self._headers["Authorization"] = f"Bearer {key}"
        self._events: queue.Queue[bytes | None] = queue.Queue(_MOST_EVENTS)
        self._thread = threading.Thread(target=self._send_on, name="queen-lineage", daemon=True)
        self._log_at = 0.0
        if self._url is not None:
            self._thread.start()

    def __enter__(self) -> "Lineage":
        return self

    def __exit__(self, *_: object) -> None:
        """Send the waiting events, for a limited time."""
        if self._url is not None:
            with contextlib.suppress(queue.Full):
                self._events.put_nowait(None)
            self._thread.join(_CLOSE_SECONDS)

    @contextlib.contextmanager
    def run(self, job: Job, config: Any, name: str) -> Generator[None]:  # noqa: ANN401 - its Config
        """Send the events of one run."""
        if self._url is None:
            yield
            return
        run_id = str(uuid4())
        about = {
            "job": {"namespace": self._namespace, "name": name, "facets": _job_facets(config)},
            **_datasets(job, config),
        }
        self._emit("START", run_id, about)
        try:
            yield
        except BaseException as error:
            if type(error).__name__ in _STOPPED:
                self._emit("ABORT", run_id, about)
            else:
                facet = {"message": error_text(error), "programmingLanguage": "PYTHON"}
                failed = {"errorMessage": _facet("1-0-0/ErrorMessageRunFacet", facet)}
                self._emit("FAIL", run_id, about, failed)
            raise
        self._emit("COMPLETE", run_id, about)

    def _emit(
        self, type_: str, run_id: str, about: Mapping[str, Any], facets: Mapping[str, Any] = {}
    ) -> None:
        event = {
            "eventType": type_,
            "eventTime": datetime.now(UTC).isoformat(),
            "producer": _producer(),
            "schemaURL": _EVENT,
            "run": {"runId": run_id, "facets": facets},
            **about,
        }
        try:
            self._events.put_nowait(msgspec.json.encode(event))
        except queue.Full:
            self._warn(f"{_MOST_EVENTS} events wait for the server, so newer ones are dropped")

    def _send_on(self) -> None:
        while (event := self._events.get()) is not None:
            request = urllib.request.Request(self._url or "", event, self._headers)
            try:
                with urllib.request.urlopen(request, timeout=_REQUEST_SECONDS):
                    pass
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._warn(f"an event was not sent: {error}")

    def _warn(self, text: str) -> None:
        if time.monotonic() >= self._log_at:
            self._log_at = time.monotonic() + _LOG_SECONDS
            _LOG.warning("OpenLineage: %s", text)


def _datasets(job: Job, config: Any) -> dict[str, Any]:  # noqa: ANN401 - its Config
    """Return the inputs and outputs of a pipeline."""
    lake = _lake(job, config)
    source = getattr(config, "queue", None) or getattr(config, "from_queue", None)
    inputs = [] if source is None else [_queue(config, source)]
    if job.kind == "archive":
        outputs = [_table(lake, BY_NAME)]
    elif job.kind == "compact":
        inputs, outputs = [lake] if lake else [], [_table(lake, BY_NAME)] if lake else []
    elif job.kind == "recall":
        inputs = [lake] if lake else []
        outputs = [_table(_queue(config, config.queue), _fields(config))]
    elif job.kind == "rollup":
        place = _place(config)
        outputs = [_named(f"postgres://{place['host']}", f"{place['database']}.queen.rollups")]
    else:
        if job.kind == "replay" and lake is not None:
            inputs = [lake]
        outputs = [_table(_queue(config, config.to_queue), _fields(config))]
    return {"inputs": inputs, "outputs": outputs}


def _fields(config: Any) -> Mapping[str, Any]:  # noqa: ANN401 - its Config
    """Return the fields of the messages that a pipeline writes."""
    if hasattr(config, "aggregate"):
        return dict.fromkeys(["start", "end", *config.by, *config.aggregate])
    return {name: BY_NAME[name] for name in _QUEUE_COLUMNS}


def _lake(job: Job, config: Any) -> dict[str, Any] | None:  # noqa: ANN401 - its Config
    """Return the dataset of the lake that a pipeline reads or writes."""
    location = getattr(config, "location", None)
    if job.kind in ("compact", "recall"):
        with contextlib.suppress(errors.QueenError, psycopg.Error), connect(config.dsn) as database:
            location = _archive(database, job, config)["location"]
    if not location:
        return None
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return _named("file", parts.path)
    return _named(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path.strip("/"))


def _archive(database: Connection, job: Job, config: Any) -> dict[str, Any]:  # noqa: ANN401 - its Config
    """Return the archive that a pipeline reads. Raises NotFound."""
    if job.kind == "recall":
        queue = find_queue(database, config.queue)
        found = archive_of(database, config.queue, queue["id"], config.archive)
    else:
        found = next(iter(call(database, "find_archive", config.name)), None)
    if found is None:
        raise errors.NotFound("the archive does not exist")
    return found


def _queue(config: Any, name: str) -> dict[str, Any]:  # noqa: ANN401 - its Config
    place = _place(config)
    return _named(f"queen://{place['host']}/{place['database']}", name)


def _place(config: Any) -> dict[str, str]:  # noqa: ANN401 - its Config
    """Return host and database, without credentials."""
    given = conninfo_to_dict(config.dsn or "")
    hosts = str(given.get("host") or given.get("hostaddr") or "localhost").split(",")
    host = "localhost" if hosts[0].startswith("/") else hosts[0]
    port = str(given.get("port") or 5432).split(",")[0]
    return {"host": f"{host}:{port}", "database": str(given.get("dbname") or "postgres")}


def _named(namespace: str, name: str) -> dict[str, Any]:
    return {"namespace": namespace, "name": name}


def _table(dataset: Mapping[str, Any] | None, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Add the columns to a dataset."""
    fields = [
        {"name": name} | ({} if column is None else {"type": column.spark})
        for name, column in columns.items()
    ]
    facets = {"schema": _facet("1-1-1/SchemaDatasetFacet", {"fields": fields})}
    return {**(dataset or {}), "facets": facets}


def _job_facets(config: Any) -> dict[str, Any]:  # noqa: ANN401 - its Config
    statement = getattr(config, "sql", None)
    if statement is None:
        return {}
    return {"sql": _facet("1-0-1/SQLJobFacet", {"query": statement})}


def _facet(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    schema = f"{_FACETS}/{name}.json#/$defs/{name.rpartition('/')[2]}"
    return {"_producer": _producer(), "_schemaURL": schema, **fields}


@cache
def _producer() -> str:
    try:
        return f"urn:queenmq:{version('queenmq')}"
    except PackageNotFoundError:
        return "urn:queenmq:unknown"
