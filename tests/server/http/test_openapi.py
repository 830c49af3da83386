"""The OpenAPI document is correct: generated requests get only documented responses."""

# Schemathesis has no types for most of its API.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from queen.server.http.call import Route
from queen.server.http.openapi import document
from queen.server.routes.messaging import ack, lease, pop, push, transaction
from queen.server.routes.table import ROUTES
from tests.support.server import Server

MESSAGING = [*push.ROUTES, *pop.ROUTES, *ack.ROUTES, *transaction.ROUTES, *lease.ROUTES]
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)


@pytest.fixture
async def served(dsn: str) -> AsyncIterator[Server]:
    """A server with all features, and objects under the names that generated requests use."""
    async with Server(dsn, {"QUEEN_METRICS_PER_OBJECT": "true"}) as server:
        await server.post(
            "/push",
            {"items": [{"queue": "orders", "partition": p, "payload": {"n": 1}} for p in "ab"]},
        )
        yield server


def operations() -> list[tuple[str, str]]:
    return sorted({(route.method, route.path) for route in ROUTES})


async def test_the_document_is_served_and_names_every_route(server: Server) -> None:
    reply = await server.get("/openapi.json")

    assert reply.status == 200
    assert reply.body["openapi"] == "3.1.0"
    assert {
        (method.upper(), path) for path, item in reply.body["paths"].items() for method in item
    } == {(route.method, route.path) for route in ROUTES}


@pytest.mark.parametrize("encoding", ["gzip", None])
async def test_the_document_is_compressed_if_the_client_accepts_it(
    shared: Server, encoding: str | None
) -> None:
    async with shared.session.get(
        f"{shared.base_url}/api/v1/openapi.json",
        headers={"Accept-Encoding": encoding or "identity"},
    ) as answer:
        body = await answer.json()

    assert answer.headers.get("Content-Encoding") == encoding
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert body["servers"] == [{"url": "/"}]


def test_operation_ids_are_unique() -> None:
    made = document(ROUTES)
    ids = [each["operationId"] for item in made["paths"].values() for each in item.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("routes", "examples"),
    [(MESSAGING, 2), pytest.param(ROUTES, 12, marks=pytest.mark.nightly)],
    ids=["messaging", "all"],
)
async def test_generated_requests_get_documented_responses(
    served: Server, routes: Sequence[Route], examples: int
) -> None:
    """Every operation, with valid and invalid data."""
    raw: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document(routes)))
    schema = schemathesis.openapi.from_dict(raw)
    schema.config.update(base_url=served.base_url)
    failures: list[str] = []
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # pyright: ignore[reportAttributeAccessIssue] - or raises
        await asyncio.to_thread(_exercise, operation, failures, examples)
    assert not failures, "\n\n".join(failures[:5])


def _exercise(operation: Any, failures: list[str], examples: int) -> None:  # noqa: ANN401 - schemathesis's
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    def run(case: Any) -> None:  # noqa: ANN401 - schemathesis's
        if isinstance(case.query, dict) and case.query.get("wait"):
            case.query["timeout"] = 1  # Long polls are not the subject of this test.
        if isinstance(case.body, dict) and case.body.get("wait"):
            case.body["timeout"] = 1
        case.call_and_validate(checks=CHECKS, timeout=20)

    try:
        for mode in GenerationMode:
            # A route without input cannot get invalid input.
            with contextlib.suppress(Unsatisfiable):
                given(operation.as_strategy(generation_mode=mode))(run)()
    except Exception as error:
        failures.append(f"{operation.method.upper()} {operation.path}: {error}")
    except BaseExceptionGroup as group:
        failures.append(f"{operation.method.upper()} {operation.path}: {group.exceptions[0]}")


async def test_request_headers_of_a_route_are_documented(shared: Server) -> None:
    document = (await shared.get("/openapi.json")).body
    parameters = document["paths"]["/api/v1/configure"]["post"]["parameters"]

    assert [(each["name"], each["in"]) for each in parameters] == [("If-Match", "header")]


def test_the_documents_garbage_is_never_collected() -> None:
    """Its collection at exit crashed Python in a third of all runs."""
    gc.unfreeze()

    document(ROUTES)

    assert gc.get_freeze_count() > 0
