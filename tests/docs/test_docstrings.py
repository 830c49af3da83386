"""Every public name of the SDK has a docstring."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = ("queen", "queen.jobs", "queen.testing", "queen.errors")
RETURNED = (
    "queen.client.admin.admin.Admin",
    "queen.client.admin.dead_letters.DeadLetters",
    "queen.client.config.Config",
    "queen.client.push.buffered.Buffered",
    "queen.client.push.buffered.BufferOptions",
    "queen.client.transaction.Transaction",
)
"""Classes of objects that users receive, and of options that they set."""
MODULES = ("queen.client.cloudevents", "queen.client.outbox", "queen.testing.plugin")
WITHOUT_FIELDS = ("queen.errors", "queen.wire", "queen.client.sync")
"""
Modules whose fields are described elsewhere.

The reference lists the constants of errors, the HTTP API describes the fields of its structs, and
SyncQueen has the fields of Queen.
"""
_BLOCKS = (ast.FunctionDef, ast.If, ast.Try, ast.With)


def public_objects() -> Iterator[tuple[str, Any]]:
    for path in RETURNED:
        module, _, name = path.rpartition(".")
        yield path, getattr(import_module(module), name)
    for path in (*PACKAGES, *MODULES):
        module = import_module(path)
        yield path, module
        names: list[str] = getattr(module, "__all__", dir(module))
        for name in names:
            found = getattr(module, name)
            if path in PACKAGES or getattr(found, "__module__", "") == path:
                yield f"{path}.{name}", found


def undocumented(path: str, found: Any) -> Iterator[str]:  # noqa: ANN401 - a module, class or function
    """The path of an object and of its members, as far as they have no docstring."""
    if path.rpartition(".")[2].startswith("_"):
        return
    if inspect.isclass(found):
        yield from _undocumented_members(path, found)
    is_described = isinstance(found, ModuleType | type) or inspect.isfunction(found)
    # `inspect.getdoc` would also find the docstring of a base class.
    if is_described and not (found.__doc__ or "").strip():
        yield path


def _undocumented_members(path: str, kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] != "queen":
            continue
        for name, member in vars(base).items():
            function = inspect.unwrap(_function_of(member))
            if inspect.isfunction(function):
                yield from undocumented(f"{path}.{name}", function)
        if not base.__module__.startswith(WITHOUT_FIELDS):
            fields = _fields(Path(inspect.getfile(base)), base.__name__)
            yield from (f"{path}.{name}" for name, text in fields if text is None)


def _function_of(member: Any) -> Any:  # noqa: ANN401 - a method, property or field
    for attribute in ("__func__", "fget", "func"):
        member = getattr(member, attribute, member)
    return member


@cache
def _fields(file: Path, class_name: str) -> list[tuple[str, str | None]]:
    """The public fields of a class, each with the string that follows its assignment."""
    tree = ast.parse(file.read_text("utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    (found,) = (node for node in classes if node.name == class_name)
    bodies: list[list[ast.stmt]] = [found.body]
    for method in found.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            bodies += [node.body for node in ast.walk(method) if isinstance(node, _BLOCKS)]
    fields: dict[str, str | None] = {}
    for body in bodies:
        for statement, following in zip(body, [*body[1:], None], strict=True):
            name = _assigned(statement)
            if name is not None and not name.startswith("_"):
                fields[name] = fields.get(name) or _text(following)
    return list(fields.items())


def _assigned(statement: ast.stmt) -> str | None:
    """The name in `name: T = …`, or in `self.name = …`."""
    if isinstance(statement, ast.AnnAssign):
        target = statement.target
    elif isinstance(statement, ast.Assign):
        target = statement.targets[0]
    else:
        return None
    if isinstance(target, ast.Attribute):
        return target.attr if ast.unparse(target.value) == "self" else None
    return target.id if isinstance(target, ast.Name) and target.col_offset == 4 else None


def _text(statement: ast.stmt | None) -> str | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else None
    return None


def test_every_public_name_has_a_docstring() -> None:
    missing = {name for path, found in public_objects() for name in undocumented(path, found)}
    assert sorted(missing) == []


class Sample:
    """A class of which two members lack a docstring."""

    documented: int = 1
    """A field."""
    bare: int = 2

    def push(self) -> None: ...


def test_a_missing_docstring_is_found() -> None:
    assert _fields(Path(__file__), "Sample") == [("documented", "A field."), ("bare", None)]
    assert list(undocumented("queen.push", Sample.push)) == ["queen.push"]
    assert list(undocumented("queen._push", Sample.push)) == []
