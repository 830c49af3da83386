"""Pipelines by kind: their configuration, and the options that it has."""

# pyright: basic
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from queen import errors

MODULES: Final = {
    "archive": "queen.pipelines.archive",
    "compact": "queen.pipelines.compact",
    "recall": "queen.pipelines.recall",
    "replay": "queen.spark.pipelines.replay",
    "rollup": "queen.spark.pipelines.rollup",
    "transform": "queen.spark.pipelines.transform",
    "window": "queen.spark.pipelines.windows",
}
"""Modules by kind, as used on the command line."""
LOCAL_KINDS: Final = ("archive", "compact", "recall")
"""Kinds that run without Spark."""
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
    check: Callable[..., object]
    """Checks on a connection, without Spark, that everything exists that a run needs."""


class Option(NamedTuple):
    """A field of a pipeline's configuration."""

    name: str
    type: str
    default: str | None
    """None if there is none."""
    help: str


def job(kind: str) -> Job:
    """Return a pipeline by its kind."""
    module = import_module(MODULES[kind])
    return Job(kind, module.Config, module.run, module.check)


def options(job: Job) -> list[Option]:
    """List the options of a pipeline."""
    types = get_type_hints(job.config)
    described = get_type_hints(job.config, include_extras=True)
    return [
        Option(
            field.encode_name,
            _type_name(types[field.name]),
            _default(field),
            _described(described[field.name]),
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


def _described(type_: Any) -> str:  # noqa: ANN401 - an annotation
    """Return the description in an annotation: ``Annotated[str, Meta(description="…")]``."""
    metas = (each for each in getattr(type_, "__metadata__", ()) if isinstance(each, msgspec.Meta))
    return next((each.description for each in metas if each.description), "")


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


def _default(field: msgspec.structs.FieldInfo) -> str | None:
    """Return the default as users write it, or ``required``."""
    if field.required:
        # The environment has a value for this one.
        return None if field.name == "dsn" else "required"
    value = field.default
    if value is msgspec.NODEFAULT or value in (None, "", ()):
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
