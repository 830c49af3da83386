"""Descriptions in the OpenAPI document that don't come from a docstring."""

import inspect
import sys
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

from queen import errors
from queen.server.http.call import Route

SHARED: Final = {
    "Cache-Control": "`max-age=N`: accept a cached response up to N seconds old, at most 10."
}
"""Request headers of routes with a response cache."""
_NAMES: Final = {
    "delivery": "Id of the delivery, as listed by `GET /resources/queues/{queue}/deliveries`.",
    "dlq/{id}": "Id of the dead letter, as listed by `GET /dlq`.",
    "group": "Name of the consumer group; `__QUEUE_MODE__` for pops without a group.",
    "leaseId": "Id of the lease, as returned by a pop.",
    "operations/{id}": "Id of the operation, as returned by the request that started it.",
    "partition": "Name of the partition.",
    "partitionId": "Id of the partition, as returned by a push or a pop.",
    "archives/{name}": "Name of the archive.",
    "pipelines/{name}": "Name of the pipeline.",
    "queue": "Name of the queue.",
    "ref": "Id of the message, or its `transactionId` if no other message has the same one.",
    "schedules/{name}": "Name of the schedule.",
    "shards/{name}": "Name of the database in `QUEEN_DATABASES`.",
    "step": "Name of the step.",
    "tokens/{id}": "Id of the API key: 12 hexadecimal digits.",
    "by-name/{name}": "Name that consumers gave to events.",
    "transactionId": "The `transactionId` of the message, or its id.",
    "workflow": "Id of the workflow run.",
    "{queue}/{name}": "Name of the hold, such as `archive:orders`.",
    "{queue}/{id}": "Id of the job: its `unique`, or the id that the server returned.",
}
"""Names in paths, some with the segment before them."""
_PARTITION_REF: Final = "Id of the message's partition, as returned by a push or a pop."


def path_parameters(route: Route) -> Mapping[str, str]:
    """Return the names in the path of a route, with their descriptions."""
    found: dict[str, str] = {}
    for before, segment in pairwise(route.path.split("/")):
        if segment.startswith("{"):
            name = segment[1:-1]
            found[name] = _NAMES.get(f"{before}/{segment}") or _NAMES[name]
    if {"ref", "transactionId"} <= found.keys():
        found["ref"] = _PARTITION_REF
    return found


def operation(route: Route) -> str:
    """Describe a route: the docstring of its handler, and the permission that it needs."""
    text = inspect.cleandoc(route.handler.__doc__ or "")
    if route.is_public:
        needed = "Needs no authentication."
    else:
        needed = "" if route.permission is None else f"Permission: `{route.permission}`."
    return f"{text}\n\n{needed}".strip() if text else ""


def problems(found: Iterable[type[errors.QueenError]]) -> str:
    """Describe the errors that share a status."""
    texts = {error.code: f"`{error.code}`: {error.default_message}" for error in found}
    ordered = [texts[code] for code in sorted(texts)]
    return ordered[0] if len(ordered) == 1 else "\n".join(f"- {text}" for text in ordered)


def tags(routes: Iterable[Route]) -> Mapping[str, str]:
    """Return the tags of routes, described by the docstring of a module."""
    found: dict[str, str] = {}
    for route in routes:
        tag, module = tag_of(route), route.handler.__module__
        if tag not in found or module.endswith(f".{tag}"):
            found[tag] = inspect.cleandoc(sys.modules[module].__doc__ or "")
    return found


def tag_of(route: Route) -> str:
    """Return the section of a route."""
    return route.tag or route.handler.__module__.rpartition(".")[2]
