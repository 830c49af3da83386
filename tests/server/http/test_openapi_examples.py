"""The OpenAPI document describes everything, and a server responds as its examples show."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs
import msgspec
import pytest

from queen.server.http.openapi import document
from queen.server.http.openapi_examples import read_examples
from queen.server.routes.table import ROUTES
from tests.support.examples import conversation, unlike

Json = Any
Validator = jsonschema_rs.Draft202012Validator
Compile = Callable[[Json], Validator]
_JSON = "application/json"
_STREAM = "GET /api/v1/stream"
"""Its frames, which follow the response 101, are not part of OpenAPI."""
_SEVERAL = {
    "POST /api/v1/shards/moves",
    "POST /api/v1/shards/drain",
    "POST /api/v1/shards/pins",
    "POST /api/v1/shards/rebalance",
    "POST /api/v1/shards/unpin",
    "DELETE /api/v1/shards/{name}",
}
"""They need several databases. The examples come from a server with one."""


class Operation(NamedTuple):
    """An operation of the document."""

    name: str
    shown: dict[str, Json]

    @property
    def contents(self) -> Iterator[tuple[str, dict[str, Json]]]:
        """Its bodies by name: the request, and the responses that are not problems."""
        if "requestBody" in self.shown:
            yield "request", self.shown["requestBody"]["content"][_JSON]
        for status, response in self.shown["responses"].items():
            for media_type, content in response.get("content", {}).items():
                if media_type != "application/problem+json":
                    yield f"{status} {media_type}", content


@pytest.fixture(scope="module")
def openapi() -> dict[str, Json]:
    return msgspec.json.decode(msgspec.json.encode(document(ROUTES)))


@pytest.fixture(scope="module")
def operations(openapi: dict[str, Json]) -> dict[str, Operation]:
    return {
        name: Operation(name, shown)
        for path, methods in openapi["paths"].items()
        for method, shown in methods.items()
        if (name := f"{method.upper()} {path}")
    }


@pytest.fixture(scope="module")
def validator(openapi: dict[str, Json]) -> Compile:
    """Return a function that compiles a schema of the document."""
    address = "urn:openapi"
    registry = jsonschema_rs.Registry([(address, openapi)], draft=jsonschema_rs.Draft202012)

    @cache
    def compiled(encoded: str) -> Validator:
        schema = msgspec.json.decode(encoded.replace('"#/', f'"{address}#/'))
        return Validator(schema, registry=registry, validate_formats=True)

    return lambda schema: compiled(msgspec.json.encode(schema).decode())


def test_every_schema_is_valid(openapi: dict[str, Json], validator: Compile) -> None:
    """Their patterns had Python's syntax once. In JavaScript they would have rejected all texts."""
    for schema in openapi["components"]["schemas"].values():
        validator(schema)


def test_every_schema_and_property_is_described(openapi: dict[str, Json]) -> None:
    schemas = openapi["components"]["schemas"]
    assert sum(len(schema["properties"]) for schema in schemas.values()) > 1_000
    assert [
        f"{name} {of}"
        for name, schema in schemas.items()
        for of, each in (("itself", schema), *schema["properties"].items())
        if not each.get("description")
    ] == []


def test_every_operation_and_its_parts_are_described(operations: dict[str, Operation]) -> None:
    assert [
        f"{operation.name} {part}"
        for operation in operations.values()
        for part, each in _parts(operation.shown)
        if not each.get("description")
    ] == []


def _parts(operation: dict[str, Json]) -> Iterator[tuple[str, dict[str, Json]]]:
    yield "itself", operation
    if "requestBody" in operation:
        yield "requestBody", operation["requestBody"]
    for parameter in operation["parameters"]:
        yield f"parameter {parameter['name']}", parameter
    for status, response in operation["responses"].items():
        yield f"response {status}", response


def test_every_tag_is_described(openapi: dict[str, Json], operations: dict[str, Operation]) -> None:
    described = {tag["name"] for tag in openapi["tags"] if tag["description"]}
    assert described == {tag for each in operations.values() for tag in each.shown["tags"]}


def test_every_operation_has_an_example(operations: dict[str, Operation]) -> None:
    missing: list[str] = []
    for name, operation in operations.items():
        if name in _SEVERAL:
            continue
        parameters = operation.shown["parameters"]
        required = [each for each in parameters if each.get("required")]
        shown = dict(operation.contents)
        request = shown.pop("request", {"example": None})
        if not all("example" in each for each in (*required, request)):
            missing.append(f"{name}: request")
        if name != _STREAM and not any("example" in each for each in shown.values()):
            missing.append(f"{name}: response")
    assert missing == []


def test_every_example_belongs_to_an_operation(operations: dict[str, Operation]) -> None:
    examples = read_examples()
    assert {example.operation for example in examples} == operations.keys() - {_STREAM} - _SEVERAL
    for example in examples:
        shown = operations[example.operation].shown
        parameters = {each["name"] for each in shown["parameters"]}
        assert parameters >= {*example.path, *example.query, *example.headers} - {"Accept"}, shown


def test_examples_match_their_schemas(operations: dict[str, Operation], validator: Compile) -> None:
    for operation in operations.values():
        parameters = [(each["name"], each) for each in operation.shown["parameters"]]
        for _, each in (*parameters, *operation.contents):
            if "example" in each:
                validator(each["schema"]).validate(each["example"])


async def test_a_server_responds_as_the_examples_show(
    dsn: str,
    tmp_path: Path,
    operations: dict[str, Operation],
    validator: Compile,
) -> None:
    async with conversation(dsn, tmp_path) as talk:
        for example in read_examples():
            reply = await talk.send(example)

            assert unlike(example, reply) is None, example.operation
            content = operations[example.operation].shown["responses"][str(example.status)]
            media_type = reply.headers["content-type"].partition(";")[0]
            validator(content["content"][media_type]["schema"]).validate(reply.body)
            talk.learn(example.response, reply.body)
