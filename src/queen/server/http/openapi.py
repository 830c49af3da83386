"""Build the OpenAPI document from the routes and structs that serve requests."""

import gc
import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, Final

import msgspec

from queen import errors
from queen.server.http.call import API, Route
from queen.wire.problems import Problem

_REF: Final = "#/components/schemas/{name}"
_OF_ALL: Final = (
    errors.BadRequest,
    errors.OriginRefused,
    errors.RequestTimeout,
    errors.HeadersTooLarge,
    errors.DatabaseUnavailable,
    errors.Overloaded,
    errors.OutcomeUnknown,
    errors.QueenError,
)
_OF_CALLERS: Final = (
    errors.Unauthorized,
    errors.Forbidden,
    errors.RateLimited,
    errors.Draining,
)
_OF_BODIES: Final = (errors.BodyTooLarge, errors.TooManyBytes, errors.UnsupportedMediaType)
_SHARED: Final = {
    "Cache-Control": "`max-age=N`: accept a cached response that is up to N seconds old"
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Build the OpenAPI 3.1 document of these routes."""
    routes = list(routes)
    types = [*dict.fromkeys(each for route in routes for each in _types(route)), Problem]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    # msgspec 0.22 leaves objects behind that crash Python's last garbage collection, at exit, in a
    # third of all runs. Frozen objects are never collected.
    gc.freeze()
    shown = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(
            route, shown, components
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Queen",
            "version": version("queenmq"),
            "description": "A message queue and job queue on PostgreSQL.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}, {}],
    }


def _types(route: Route) -> Iterable[type[Any]]:
    for each in (route.body, route.query, *route.answers.values()):
        if each is not None:
            yield each


def _operation(
    route: Route, shown: dict[type[Any], dict[str, Any]], components: dict[str, Any]
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag or route.handler.__module__.rpartition(".")[2]],
        "parameters": [
            *_path_parameters(route),
            *_query_parameters(route, shown, components),
            *(
                {"name": name, "in": "header", "description": meaning, "schema": {"type": "string"}}
                for name, meaning in {
                    **route.headers,
                    **(_SHARED if route.is_shared else {}),
                }.items()
            ),
        ],
        "responses": _responses(route, shown),
    }
    if (route.handler.__doc__ or "").strip():
        operation["description"] = (route.handler.__doc__ or "").strip()
    if route.body is not None:
        operation["requestBody"] = {
            "required": any(each.required for each in msgspec.structs.fields(route.body)),
            "content": {"application/json": {"schema": shown[route.body]}},
        }
    if route.is_public:
        operation["security"] = []
    return operation


def _operation_id(route: Route) -> str:
    path = route.path.removeprefix(API)
    words = re.sub(r"[^A-Za-z0-9]+", " ", path).split()
    return route.method.lower() + "".join(word[0].upper() + word[1:] for word in words)


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]


def _query_parameters(
    route: Route, shown: dict[type[Any], dict[str, Any]], components: dict[str, Any]
) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = components[shown[route.query]["$ref"].rpartition("/")[2]]
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "schema": of_name,
        }
        for name, of_name in schema.get("properties", {}).items()
    ]


def _responses(route: Route, shown: dict[type[Any], dict[str, Any]]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, answer in route.answers.items():
        text_alone = route.is_text_too and answer is None
        description = "Plain text." if text_alone else _described(answer)
        responses[str(status)] = {"description": description}
        if answer is not None:
            responses[str(status)]["content"] = {"application/json": {"schema": shown[answer]}}
        if route.is_text_too:
            text = {"text/plain": {"schema": {"type": "string"}}}
            responses[str(status)].setdefault("content", {}).update(text)
    problems: dict[int, set[str]] = {}
    raised = [*_OF_ALL, *route.problems]
    if not route.is_public:
        raised += _OF_CALLERS
    if route.body is not None:
        raised += _OF_BODIES
    for error in raised:
        problems.setdefault(error.http_status, set()).add(error.code)
    for status, codes in sorted(problems.items()):
        content = {"application/problem+json": {"schema": shown[Problem]}}
        response = responses.setdefault(str(status), {"description": "", "content": {}})
        response.setdefault("content", {}).update(content)
        listed = ", ".join(sorted(codes))
        response["description"] = " ".join(filter(None, (response["description"], listed)))
    return responses


def _described(answer: type[Any] | None) -> str:
    return (answer.__doc__ or answer.__name__).strip() if answer else "No body."
