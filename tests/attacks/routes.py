"""Every GET route: its list, and the parameters of its path and query that name objects."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin
from urllib.parse import quote

import msgspec

from queen.server.http.call import API, Route
from queen.server.routes.table import ROUTES
from tests.attacks.world import Owned

GETS: Final = {route.path: route for route in ROUTES if route.method == "GET"}

Query = dict[str, str | int]


class Case(NamedTuple):
    """How to call a route. Values are field names of `Owned`."""

    rows: str | None = None
    """The list in the body, if the route returns pages."""
    path: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    """Required parameters."""
    is_for_all: bool = True
    """False: callers with scopes are rejected."""


_SERVER: Final = Case(is_for_all=False)
_QUEUE: Final = {"queue": "queue"}
_RUN: Final = {"workflow": "workflow"}
_MESSAGE: Final = {"partitionId": "partition_id", "transactionId": "transaction_id"}
_RESOURCES: Final = f"{API}/resources"

TAKES: Final = {
    f"{API}/pop",
    f"{API}/pop/queue/{{queue}}",
    f"{API}/pop/queue/{{queue}}/partition/{{partition}}",
    f"{API}/stream",
}
"""Routes with an effect. Tests of pushes, pops and streams cover them."""

CASES: Final[Mapping[str, Case]] = {
    f"{API}/configure": Case("queues"),
    f"{_RESOURCES}/overview": Case(),
    f"{_RESOURCES}/namespaces": Case("namespaces"),
    f"{_RESOURCES}/tasks": Case("tasks"),
    f"{_RESOURCES}/queues": Case("queues"),
    f"{_RESOURCES}/queues/{{queue}}": Case(path=_QUEUE),
    f"{_RESOURCES}/queues/{{queue}}/partitions": Case("partitions", path=_QUEUE),
    f"{_RESOURCES}/queues/{{queue}}/deliveries": Case("deliveries", path=_QUEUE),
    f"{API}/consumer-groups": Case("consumerGroups"),
    f"{API}/consumer-groups/{{group}}/queues/{{queue}}/partitions": Case(
        "partitions", path={"group": "group", **_QUEUE}
    ),
    f"{API}/messages": Case("messages", query=_QUEUE),
    f"{API}/messages/{{ref}}": Case(path={"ref": "message_id"}),
    f"{API}/messages/{{ref}}/{{transactionId}}": Case(
        path={"ref": "partition_id", "transactionId": "transaction_id"}
    ),
    f"{API}/dlq": Case("messages"),
    f"{API}/dlq/errors": Case(query=_QUEUE),
    f"{API}/dlq/{{id}}": Case(path={"id": "dead_letter"}),
    f"{API}/traces/names": _SERVER,
    f"{API}/traces/by-name/{{name}}": Case("traces", path={"name": "trace"}),
    f"{API}/traces/{{partitionId}}/{{transactionId}}": Case("traces", path=_MESSAGE),
    f"{API}/schedules": Case("schedules"),
    f"{API}/schedules/{{name}}": Case(path={"name": "schedule"}),
    f"{API}/workflows": Case("workflows"),
    f"{API}/workflows/{{workflow}}": Case(path=_RUN),
    f"{API}/workflows/{{workflow}}/steps/{{step}}": Case(path={**_RUN, "step": "step"}),
    f"{API}/workflows/{{workflow}}/steps/{{step}}/parts": Case(
        "parts", path={**_RUN, "step": "step"}
    ),
    f"{API}/jobs": Case("jobs", query={"queue": "jobs"}),
    f"{API}/jobs/{{queue}}/{{id}}": Case(path={"queue": "jobs", "id": "job"}),
    f"{API}/jobs/metrics": Case("queues"),
    f"{API}/jobs/workers": Case(),
    f"{API}/operations": Case("operations"),
    f"{API}/operations/{{id}}": Case(path={"id": "operation"}),
    f"{API}/pipelines": Case("pipelines"),
    f"{API}/pipelines/{{name}}": Case(path={"name": "pipeline"}),
    f"{API}/pipelines/{{name}}/series": Case(path={"name": "pipeline"}),
    f"{API}/holds": Case("holds"),
    f"{API}/archives": Case("archives"),
    f"{API}/cluster": Case(),
    f"{API}/shards": _SERVER,
    f"{API}/shards/pins": _SERVER,
    f"{API}/system/instances": _SERVER,
    f"{API}/system/config": _SERVER,
    f"{API}/system/migrations": _SERVER,
    f"{API}/system/tables": _SERVER,
    f"{API}/system/upkeep": _SERVER,
    f"{API}/system/maintenance": _SERVER,
    f"{API}/system/maintenance/pop": _SERVER,
    f"{API}/status/buffers": Case(),
    f"{API}/analytics": Case(),
    f"{API}/analytics/queues": Case("queues"),
    f"{API}/analytics/queue/{{queue}}": Case(path=_QUEUE),
    f"{API}/analytics/throughput": Case(),
    f"{API}/analytics/queue-depths": Case(),
    f"{API}/analytics/series": Case(query={"metric": "metric"}),
    "/metrics": Case(),
    "/metrics/per-object": Case(),
    "/livez": Case(),
    "/readyz": Case(),
    "/health": Case(),
    f"{API}/auth/me": Case(),
    f"{API}/tokens": _SERVER,
    f"{API}/audit": _SERVER,
    f"{API}/openapi.json": Case(),
}

_CONSTANTS: Final = {"step": "fan", "metric": "pushed,depth,lag"}
FILTERS: Final = {
    "queue": "queue",
    "namespace": "namespace",
    "task": "task",
    "search": "queue",
    "prefix": "namespace",
    "partition": "namespace",
    "consumerGroup": "namespace",
    "transactionId": "transaction_id",
    "contains": "namespace",
    "name": "workflow",
    "tag": "workflow",
    "correlationId": "workflow",
    "key": "namespace",
    "fingerprint": "namespace",
    "actor": "namespace",
    "action": "namespace",
}
"""Parameters that name an object, and the field of another tenant to try them with."""
NAMELESS: Final = {
    *("limit", "cursor", "from", "to", "bucketSeconds", "minLagSeconds", "minLag", "worst"),
    *("where", "timeout", "verbose", "wait", "metric", "reveal"),
}
"""Parameters that limit or sort a response."""


def call(path: str, owned: Owned) -> tuple[str, Query]:
    """The path and the required parameters, filled with these names."""
    case = CASES[path]

    def value(field: str) -> str:
        return _CONSTANTS.get(field) or getattr(owned, field)

    for name, field in case.path.items():
        path = path.replace(f"{{{name}}}", quote(value(field), safe=""))
    return path, {name: value(field) for name, field in case.query.items()}


def variants(route: Route) -> Iterator[Query]:
    """No parameter, then each value of each parameter with a fixed set of values."""
    yield {}
    for field in _fields(route):
        if field.encode_name in FILTERS or field.encode_name in NAMELESS:
            continue
        for value in _values(field.type):
            yield {field.encode_name: value}


def filters(route: Route, owned: Owned) -> Iterator[Query]:
    """Each parameter that names an object, with these names."""
    for field in _fields(route):
        if (named := FILTERS.get(field.encode_name)) is not None:
            yield {field.encode_name: getattr(owned, named)}


def unknown_parameters(route: Route) -> list[str]:
    """Parameters that this file does not classify."""
    return [
        field.encode_name
        for field in _fields(route)
        if field.encode_name not in FILTERS
        and field.encode_name not in NAMELESS
        and not list(_values(field.type))
    ]


def _fields(route: Route) -> tuple[msgspec.structs.FieldInfo, ...]:
    return () if route.query is None else msgspec.structs.fields(route.query)


def _values(type_: Any) -> Iterator[str]:  # noqa: ANN401 - an annotation
    if type_ is bool:
        yield "true"
    elif get_origin(type_) is Literal:
        yield from get_args(type_)
    else:
        for each in get_args(type_):
            if get_origin(each) is Literal:
                yield from get_args(each)
