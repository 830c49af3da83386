"""Build the OpenAPI document from the routes and structs that serve requests."""

import gc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, get_args

import msgspec

from queen import errors
from queen.server.http import openapi_texts as texts
from queen.server.http.call import API, Route
from queen.server.http.openapi_examples import Example, read_examples, shown_by_operation
from queen.wire.field_docs import field_docs
from queen.wire.problems import Problem

_REF: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
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

Schema = dict[str, Any]


def document(routes: Iterable[Route], path_prefix: str = "") -> dict[str, Any]:
    """Build the OpenAPI 3.1 document of these routes."""
    routes = list(routes)
    schemas = _Schemas([*(each for route in routes for each in _types(route)), Problem])
    examples = shown_by_operation(read_examples())
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        shown = examples.get(f"{route.method} {route.path}", ())
        operation = _operation(route, schemas, shown)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Queen",
            "version": version("queenmq"),
            "description": "A message queue and job queue on PostgreSQL.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": path_prefix or "/"}],
        "tags": [{"name": name, "description": text} for name, text in texts.tags(routes).items()],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key (`qk_…`) or a JSON Web Token.",
                }
            },
        },
        "security": [{"bearer": []}, {}],
    }


class _Schemas:
    """The schemas of structs, with the docstrings of their fields as descriptions."""

    def __init__(self, types: Iterable[type[Any]]) -> None:
        structs: dict[type[Any], None] = {}
        for type_ in types:
            _add_structs(type_, structs)
        schemas, self.components = msgspec.json.schema_components(structs, ref_template=_REF)
        # msgspec 0.22 leaves objects behind that crash Python's last garbage collection, at exit,
        # in a third of all runs. Frozen objects are never collected.
        gc.freeze()
        self._references = dict(zip(structs, schemas, strict=True))
        for struct in structs:
            _describe(struct, self.component(struct)["properties"])

    def reference(self, struct: type[Any]) -> Schema:
        return self._references[struct]

    def component(self, struct: type[Any]) -> Schema:
        return self.components[self._references[struct]["$ref"].rpartition("/")[2]]


def _add_structs(type_: Any, found: dict[type[Any], None]) -> None:  # noqa: ANN401 - an annotation
    """Add all structs in a type, in the order in which they occur."""
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        if type_ not in found:
            found[type_] = None
            for field in msgspec.structs.fields(type_):
                _add_structs(field.type, found)
    else:
        for each in get_args(type_):
            _add_structs(each, found)


def _describe(struct: type[Any], properties: dict[str, Schema]) -> None:
    docs = field_docs(struct)
    for name, shown in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
        if name in docs:
            properties[shown]["description"] = docs[name]
    config = struct.__struct_config__
    if config.tag_field is not None:
        properties[config.tag_field]["description"] = f"Always `{config.tag}`."


def _types(route: Route) -> Iterable[type[Any]]:
    for each in (route.body, route.query, *route.answers.values()):
        if each is not None:
            yield each


def _operation(route: Route, schemas: _Schemas, examples: Sequence[Example]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "description": texts.operation(route),
        "tags": [texts.tag_of(route)],
        "parameters": [*_parameters(route, schemas, examples)],
        "responses": _responses(route, schemas, examples),
    }
    if route.body is not None:
        content: dict[str, Any] = {"schema": schemas.reference(route.body)}
        if sent := [each.body for each in examples if each.body is not msgspec.UNSET]:
            content["example"] = sent[0]
        operation["requestBody"] = {
            "description": schemas.component(route.body)["description"],
            "required": any(each.required for each in msgspec.structs.fields(route.body)),
            "content": {_JSON: content},
        }
    if route.is_public:
        operation["security"] = []
    return operation


def _operation_id(route: Route) -> str:
    path = route.path.removeprefix(API)
    words = re.sub(r"[^A-Za-z0-9]+", " ", path).split()
    return route.method.lower() + "".join(word[0].upper() + word[1:] for word in words)


def _parameters(
    route: Route, schemas: _Schemas, examples: Sequence[Example]
) -> Iterator[dict[str, Any]]:
    given: Mapping[str, Any] = {}
    if examples:
        first = examples[0]
        given = {**first.path, **first.query, **first.headers}

    def parameter(name: str, in_: str, text: str, schema: Schema, **others: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        shown = {"example": given[name]} if name in given else {}
        return {"name": name, "in": in_, **others, "description": text, "schema": schema, **shown}

    for name, text in texts.path_parameters(route).items():
        yield parameter(name, "path", text, {"type": "string", "minLength": 1}, required=True)
    if route.query is not None:
        component = schemas.component(route.query)
        required = component.get("required", ())
        for name, described in component["properties"].items():
            schema = {key: value for key, value in described.items() if key != "description"}
            text = described.get("description", "")
            yield parameter(name, "query", text, schema, required=name in required)
    for name, text in {**route.headers, **(texts.SHARED if route.is_shared else {})}.items():
        yield parameter(name, "header", text, {"type": "string"})


def _responses(
    route: Route, schemas: _Schemas, examples: Sequence[Example]
) -> dict[str, dict[str, Any]]:
    responses: dict[str, dict[str, Any]] = {}
    for status, answer in route.answers.items():
        content: dict[str, Any] = {}
        description = "Plain text." if route.is_text_too else "No body."
        if answer is not None:
            description = schemas.component(answer)["description"]
            content[_JSON] = {"schema": schemas.reference(answer)}
        if route.is_text_too:
            content["text/plain"] = {"schema": {"type": "string"}}
        responses[str(status)] = {"description": description, "content": content}
    for example in examples:
        if example.response is not msgspec.UNSET:
            is_text = route.is_text_too and isinstance(example.response, str)
            content = responses[str(example.status)]["content"]
            content["text/plain" if is_text else _JSON].setdefault("example", example.response)
    for status, found in sorted(_problems(route).items()):
        response = responses.setdefault(str(status), {"description": "", "content": {}})
        response["content"]["application/problem+json"] = {"schema": schemas.reference(Problem)}
        described = (response["description"], texts.problems(found))
        response["description"] = "\n\n".join(filter(None, described))
    for response in responses.values():
        if not response["content"]:
            del response["content"]
    return responses


def _problems(route: Route) -> Mapping[int, Sequence[type[errors.QueenError]]]:
    """Return the errors of a route by status."""
    raised = [*_OF_ALL, *route.problems]
    if not route.is_public:
        raised += _OF_CALLERS
    if route.body is not None:
        raised += _OF_BODIES
    found: dict[int, list[type[errors.QueenError]]] = {}
    for error in raised:
        found.setdefault(error.http_status, []).append(error)
    return found
