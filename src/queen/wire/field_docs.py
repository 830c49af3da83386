"""The docstrings below the fields of structs, read from the source because Python drops them."""

import ast
import contextlib
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec


def field_docs(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstrings of fields, including inherited ones, by field name."""
    found: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            found |= _of_module(base.__module__).get(base.__name__, {})
    return found


@cache
def _of_module(name: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of fields by class; none if the module has no source file."""
    source = ""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        source = Path(sys.modules[name].__file__ or "").read_text("utf-8")
    return {
        node.name: dict(_of_class(node))
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    }


def _of_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, following in zip(node.body, node.body[1:], strict=False):
        match field, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, " ".join(text.split())
            case _:
                pass
