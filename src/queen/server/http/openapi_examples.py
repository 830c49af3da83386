"""The examples of the OpenAPI document: requests in the order of a story, and their responses."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import msgspec


class Example(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A request to an operation, and a response that a server gave to it."""

    operation: str
    """Method and path, for example `POST /api/v1/push`."""
    is_shown: bool = True
    """False: the request only prepares the next ones, and is not part of the document."""
    path: Mapping[str, str] = {}
    """Names in the path."""
    query: Mapping[str, str | int | float | bool] = {}
    headers: Mapping[str, str] = {}
    body: Any = msgspec.UNSET
    status: int
    response: Any = msgspec.UNSET
    """JSON, or text for a response in plain text."""


def read_examples() -> list[Example]:
    """Read all examples, in an order in which a server accepts them."""
    text = (files(__package__ or "") / "examples.json").read_bytes()
    return msgspec.json.decode(text, type=list[Example])


def shown_by_operation(examples: Sequence[Example]) -> Mapping[str, Sequence[Example]]:
    """Return the examples that the document shows, by operation."""
    found: dict[str, list[Example]] = {}
    for example in examples:
        if example.is_shown:
            found.setdefault(example.operation, []).append(example)
    return found
