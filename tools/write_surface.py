"""
Write tests/docs/surface.txt: the complete public surface, one line per name.

A test compares the file with the code. If a line changes, the change is part of a release: explain
it in the changelog.

Usage::

    python -m tools.write_surface
"""

import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec

from queen import sql, telemetry
from queen.server.http.openapi import document
from queen.server.routes.table import ROUTES
from queen.settings import Settings
from tests.cli.tree import COMMANDS, ROOT

REPOSITORY = Path(__file__).parents[1]
SURFACE = REPOSITORY / "tests" / "docs" / "surface.txt"
PACKAGES = ("queen", "queen.jobs", "queen.testing", "queen.errors")
_GIVEN = ("Consumption", "Message", "Processor", "SyncMessage")
"""Classes that Queen creates for users."""
_OF_TEXT = ("description", "summary")


def lines() -> list[str]:
    """Return all lines of the file."""
    return sorted({*_python(), *_http(), *_cli(), *_settings(), *_metrics(), *_sql()})


def _python() -> Iterator[str]:
    for package in PACKAGES:
        module = import_module(package)
        names: list[str] = getattr(
            module, "__all__", [name for name in dir(module) if name[0] != "_"]
        )
        for name in names:
            found = getattr(module, name)
            if inspect.isclass(found):
                created = "" if name in _GIVEN else _signature(found)
                yield f"python {package}.{name}{created}"
                yield from (f"python {package}.{name}.{each}" for each in _members(found))
            elif inspect.isfunction(found):
                yield f"python {package}.{name}{_signature(found)}"


def _members(type_: type[Any]) -> Iterator[str]:
    for base in type_.__mro__:
        if base.__module__.split(".")[0] != "queen":
            continue
        for name, member in vars(base).items():
            if name.startswith("_"):
                continue
            if isinstance(member, staticmethod | classmethod):
                yield f"{name}{_signature(getattr(type_, name))}"
            elif inspect.isfunction(member):
                yield f"{name}{_signature(member)}"
            else:
                yield name


def _signature(found: Any) -> str:  # noqa: ANN401 - a class or a function
    try:
        text = str(inspect.signature(found))
    except (ValueError, NameError, TypeError):
        return ""  # Built in, or a struct that Queen creates for users.
    if re.search(r"[(,]\s*_", text):
        return ""  # Created by Queen, not by users.
    text = text.replace("'", "").replace("~", "")
    text = re.sub(r"<[\w.]+ object at 0x[0-9a-f]+>", "...", text)
    return re.sub(r"\b(?:queen|typing|collections\.abc|datetime)(?:\.\w+)*\.(\w+)", r"\1", text)


def _http() -> Iterator[str]:
    shown = document(ROUTES)
    for path, methods in shown["paths"].items():
        for method, operation in methods.items():
            responses = {
                status: [
                    each["schema"].get("$ref") for each in response.get("content", {}).values()
                ]
                for status, response in operation["responses"].items()
            }
            called = _bare({**operation, "responses": responses})
            yield f"http {method.upper()} {path} {json.dumps(called, sort_keys=True)}"
    for name, schema in shown["components"]["schemas"].items():
        yield f"schema {name} {json.dumps(_bare(schema), sort_keys=True)}"


def _bare(node: Any) -> Any:  # noqa: ANN401 - of JSON
    """Remove texts, which may be reworded, and examples."""
    if isinstance(node, dict):
        fields = cast("dict[str, Any]", node)
        return {
            name: _bare(value)
            for name, value in fields.items()
            if not (name in _OF_TEXT and isinstance(value, str))
            and not (name == "example" and "schema" in fields)
        }
    if isinstance(node, list):
        items = cast("list[Any]", node)
        return [_bare(each) for each in items]
    return node


def _cli() -> Iterator[str]:
    for path, command in {(): ROOT, **COMMANDS}.items():
        for param in command.params:
            names = "/".join((*param.opts, *param.secondary_opts))
            yield f"cli {' '.join(('queen', *path))} {names} default {param.default}"
        if not command.params:
            yield f"cli {' '.join(('queen', *path))}"


def _settings() -> Iterator[str]:
    for name, value in msgspec.to_builtins(Settings()).items():
        yield f"setting {name} = {value}"


def _metrics() -> Iterator[str]:
    for metric in telemetry.METRICS:
        yield f"metric {metric.name} {metric.kind} {','.join(metric.labels)}"
    for event in telemetry.EVENTS:
        yield f"event {event}"


def _sql() -> Iterator[str]:
    """Functions that the documentation for users calls."""
    pages = "".join(
        page.read_text("utf-8")
        for page in REPOSITORY.glob("docs/**/*.md")
        if page.parent.name not in ("decisions", "internals", "reference", "why")
    )
    called = set(re.findall(r"\b(?:select|from|perform|execute on function) queen\.(\w+)\(", pages))
    for text in sql.FUNCTIONS.values():
        for name, arguments in re.findall(
            r"^create (?:or replace )?function queen\.(\w+)\s*\((.*?)\)\s*returns",
            text,
            flags=re.MULTILINE | re.DOTALL,
        ):
            if name in called:
                yield f"sql queen.{name}({' '.join(arguments.split())})"


if __name__ == "__main__":
    SURFACE.write_text("\n".join(lines()) + "\n", "utf-8")
