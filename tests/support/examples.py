"""Send the examples of the OpenAPI document to a server, in their order."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

import msgspec

from queen.server.http.openapi_examples import Example
from queen.store.store import Store
from tests.support.callers import KEYS, Caller, make_key
from tests.support.clock import Clock
from tests.support.server import Reply, Server, until

Json = Any
_SETTINGS: Final = {
    **KEYS,
    "QUEEN_METRICS_PER_OBJECT": "true",
    "QUEEN_COUNTERS_FLUSH_SECONDS": "0.1",
    "QUEEN_SAMPLE_SECONDS": "0.1",
    "QUEEN_UPKEEP_LOOK_SECONDS": "0.2",
    "ANALYTICS_MIN_COMPLETED": "1",
    "QUEEN_ADVERTISED_URL": "http://queen-1:6632",
    "QUEEN_PREFERRED_DATABASES": "main",
}
_NOW: Final = datetime(2026, 11, 18, 9, 30, tzinfo=UTC)
_RUN: Final = "5f0c8a3e-6f0e-4b1c-9a57-0d4b7a1f2c11"
_NAME: Final = re.compile(r"^(?:# \w+ )?(\w+)", re.MULTILINE)
_WAIT_SECONDS: Final = 10
_HOLDS: Final = "GET /api/v1/holds"


@asynccontextmanager
async def conversation(dsn: str, directory: Path) -> AsyncGenerator["Conversation"]:
    """Start a server with all features, a pipeline and an archive, at the time of the examples."""
    async with await Clock.install(dsn) as clock:
        await clock.set(_NOW)
        # The list of keys is ordered by id, and this one is the first.
        token = await make_key(dsn, name="operator", id_="000000000001")
        await _report_pipeline(dsn)
        async with Server(dsn, {**_SETTINGS, "FILE_BUFFER_DIR": str(directory)}) as server:
            yield Conversation(Caller(server, token), clock, dsn)


async def _report_pipeline(dsn: str) -> None:
    """Report a pipeline, as `queen.pipelines.report` does."""
    store = await Store.open(dsn)
    begun = ("archive", ["orders"], "lake.orders", "http://spark.example.com:4040")
    await store.database.fetch("begin_pipeline", "orders-archive", _RUN, *begun)
    await store.database.fetch(
        "report_pipeline", "orders-archive", _RUN, "running", ["orders"], "7421", 12, 1.5, 3, 250,
        4000.0, 10_000, '{"files": 2}', None, None,
    )  # fmt: skip
    await store.close()


async def _open_archive(dsn: str) -> None:
    """Open an archive and hold its queue, which only a pipeline can do."""
    store = await Store.open(dsn)
    await store.database.fetch("open_archive", "orders", "orders", "iceberg", "s3://lake/orders")
    await store.database.fetch("hold_archive", "orders")
    await store.close()


class Conversation:
    """
    Requests and responses so far.

    An example refers to an object by the id that an earlier example returned. The server of this
    conversation gave the object another id, which is sent instead.
    """

    def __init__(self, caller: Caller, clock: Clock, dsn: str) -> None:
        self._caller = caller
        self._clock = clock
        self._dsn = dsn
        self._actual: dict[str, str] = {}

    async def send(self, example: Example) -> Reply:
        """Send the request of an example, one second after the previous request."""
        await self._clock.advance(seconds=1)
        if example.operation == _HOLDS:
            await _open_archive(self._dsn)
        reply = await self._send(example)
        is_read = example.operation.startswith("GET") and "/pop" not in example.operation
        if is_read and example.response is not msgspec.UNSET:
            # Background tasks may not have stored all of it yet.
            async def is_alike() -> bool:
                nonlocal reply
                if unlike(example, reply) is not None:
                    reply = await self._send(example)
                return unlike(example, reply) is None

            try:
                await until(is_alike, seconds=_WAIT_SECONDS)
            except TimeoutError:
                return reply
        return reply

    async def _send(self, example: Example) -> Reply:
        method, _, path = example.operation.partition(" ")
        for name, value in example.path.items():
            path = path.replace(f"{{{name}}}", quote(self._actual.get(value, value), safe=""))
        parameters = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in _replaced(example.query, self._actual).items()
        }
        body = None if example.body is msgspec.UNSET else _replaced(example.body, self._actual)
        reply = await self._caller.request(
            method, path, body, parameters=parameters, headers=example.headers
        )
        return reply._replace(body=reply.body.decode()) if isinstance(reply.body, bytes) else reply

    def learn(self, example: Json, actual: Json) -> None:
        """Remember the values of this server that stand for those of an example."""
        if isinstance(example, dict):
            members = cast("dict[str, Json]", actual)
            for name, value in cast("dict[str, Json]", example).items():
                self.learn(value, members[name])
        elif isinstance(example, list):
            items = cast("list[Json]", actual)
            for value, other in zip(cast("list[Json]", example), items, strict=False):
                self.learn(value, other)
        elif isinstance(example, str) and isinstance(actual, str):
            self._actual[example] = actual

    def in_examples(self, actual: Json) -> Json:
        """Return a response with the ids of the examples."""
        return _replaced(actual, {value: name for name, value in self._actual.items()})


def _replaced(value: Json, names: Mapping[str, str]) -> Json:
    if isinstance(value, dict):
        members = cast("dict[str, Json]", value)
        return {name: _replaced(each, names) for name, each in members.items()}
    if isinstance(value, list):
        return [_replaced(each, names) for each in cast("list[Json]", value)]
    return names.get(value, value) if isinstance(value, str) else value


def unlike(example: Example, reply: Reply) -> str | None:
    """Return how a response differs from an example; None if it has the same shape."""
    if reply.status != example.status:
        return f"status {reply.status}: {reply.body}"
    if isinstance(reply.body, str) and isinstance(example.response, str):
        missing = _metrics(example.response) - _metrics(reply.body)
        return f"no {', '.join(missing)}" if missing else None
    return difference(example.response, reply.body)


def difference(example: Json, actual: Json, where: str = "") -> str | None:
    """
    Return the first difference in shape between an example and a response; None without one.

    Objects must have the same fields, and lists are both empty or not. A value that the example
    shows must have the same type, but one that is null in the example may have a value. Lists of an
    example may be cut, and its objects may be empty.
    """
    if isinstance(example, dict) and isinstance(actual, dict):
        shown, members = cast("dict[str, Json]", example), cast("dict[str, Json]", actual)
        if shown and (other := shown.keys() ^ members.keys()):
            return f"{where}: only one side has {', '.join(sorted(other))}"
        pairs = [(name, shown[name], members[name]) for name in shown]
    elif isinstance(example, list) and isinstance(actual, list):
        items, others = cast("list[Json]", example), cast("list[Json]", actual)
        if len(items) > len(others) or (others and not items):
            return f"{where}: {len(items)} items in the example, {len(others)} in the response"
        pairs = [(str(at), *both) for at, both in enumerate(zip(items, others, strict=False))]
    elif example is None or _kind(example) == _kind(actual):
        return None
    else:
        return f"{where}: {example!r} in the example, {actual!r} in the response"
    found = (difference(one, other, f"{where}/{name}") for name, one, other in pairs)
    return next((each for each in found if each is not None), None)


def _kind(value: Json) -> str:
    """Return the type of a value in JSON."""
    for type_, kind in ((bool, "boolean"), (int | float, "number"), (str, "string")):
        if isinstance(value, type_):
            return kind
    return "null" if value is None else type(value).__name__


def _metrics(text: str) -> set[str]:
    """Return the names of the metrics in a text for Prometheus."""
    return set(_NAME.findall(text))
