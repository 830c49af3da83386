"""Pipelines by kind: their configuration, and the options that it has."""

# pyright: basic
import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from queen import errors

MODULES: Final = {
    "archive": "archive",
    "compact": "compact",
    "replay": "replay",
    "rollup": "rollup",
    "window": "windows",
}
"""Modules by kind, as used on the command line."""
SOURCES: Final = ("queues", "queue", "from_queue")
"""Names of configuration fields that contain the queues to read."""
TARGETS: Final = ("to_queue", "target", "table", "path", "location")
"""Names of configuration fields that contain the destination."""
_TYPE_NAMES: Final[Mapping[Any, str]] = {
    bool: "bool",
    datetime: "time",
    dict: "mapping",
    float: "float",
    int: "int",
    str: "str",
    tuple: "list",
}


class Job(NamedTuple):
    """A kind of pipeline."""

    kind: str
    config: type[msgspec.Struct]
    run: Callable[..., Any]


class Option(NamedTuple):
    """A field of a pipeline's configuration."""

    name: str
    type: str
    default: str | None
    """None if it is required."""
    help: str


def job(kind: str) -> Job:
    """Return a pipeline by its kind."""
    module = import_module(f"queen.spark.pipelines.{MODULES[kind]}")
    return Job(kind, module.Config, module.run)


def options(job: Job) -> list[Option]:
    """List the options of a pipeline."""
    told, types = _docstrings(job.config), get_type_hints(job.config)
    return [
        Option(
            field.encode_name,
            _type_name(types[field.name]),
            None if field.required else _default(field),
            told.get(field.name, ""),
        )
        for field in msgspec.structs.fields(job.config)
    ]


def configured(job: Job, given: Mapping[str, Any], *, dsn: str | None) -> Any:  # noqa: ANN401 - its Config
    """Create the configuration, also from texts of a command line. Raises InvalidOption."""
    names = job.config.__struct_encode_fields__
    for name in given:
        if name not in names:
            near = get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"
            raise errors.InvalidOption(f"a pipeline {job.kind} has no option {name}; {hint}")
    filled = dict(given)
    if dsn is not None and "dsn" in names:
        filled.setdefault("dsn", dsn)
    try:
        return msgspec.convert(filled, job.config, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise errors.InvalidOption(f"pipeline {job.kind}: {error}") from error


def name_of(job: Job, config: Any) -> str:  # noqa: ANN401 - its Config
    """Return the default name of a run."""
    named = first_of(config, ("name", *SOURCES))
    return f"{job.kind}-{named}" if isinstance(named, str) else job.kind


def first_of(config: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 - its Config
    return next((value for each in names if (value := getattr(config, each, None))), None)


def _docstrings(config: type) -> dict[str, str]:
    """Return the docstrings of the fields, which Python does not store."""
    found: dict[str, str] = {}
    for base in reversed(config.__mro__[:-2]):  # Without Struct and object.
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, ValueError):
            continue
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for field, below in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                text = below.value if isinstance(below, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found[field.target.id] = " ".join(text.value.split())
    return found


def _type_name(type_: Any) -> str:  # noqa: ANN401 - whatever annotates a field
    """Name a type for people: int, list, mapping, time, or the allowed values."""
    of, inner = get_origin(type_), [each for each in get_args(type_) if each is not NoneType]
    if of is Literal:
        return " | ".join(inner)
    if of in (Union, UnionType):
        return _type_name(inner[0])
    if of in _TYPE_NAMES:
        return _TYPE_NAMES[of]
    return "mapping" if issubclass(type_, msgspec.Struct) else _TYPE_NAMES[type_]


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return str(field.default)
    factory = field.default_factory
    return "" if factory is msgspec.NODEFAULT else str(factory())
