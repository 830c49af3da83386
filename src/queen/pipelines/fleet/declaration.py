"""
The file of a fleet: its pipelines, with defaults that they share.

An entry has the options of its kind, as in `queen pipeline options`, and the fields of `Entry`.
Validation collects every error of the file, because each attempt to start costs a deployment.
"""

# pyright: basic
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Final, get_type_hints

import msgspec
from msgspec import Meta

from queen import errors
from queen.client.durations import seconds_of
from queen.pipelines.kinds import LOCAL_KINDS, MODULES, Job, configured, job, name_of

QUEUE: Final = "{queue}"
"""Stands for the name of the queue in options of an entry."""
_PATTERNS: Final = {"archive": "queue", "compact": "name"}
"""The option that each match of ``queues`` sets, by kind."""
_REPEATED: Final = ("compact", "rollup")
"""Kinds that end by themselves, and have new work later. A replay that is finished does nothing."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a fleet."""

    concurrency: Annotated[
        int,
        Meta(ge=1, le=1_000, description="Runs at the same time, besides windows and transforms."),
    ] = 4
    retries: Annotated[
        int,
        Meta(ge=0, description="Retries of a pipeline that ends by itself. Others are retried."),
    ] = 3
    poll_seconds: Annotated[
        float, Meta(gt=0, description="Seconds between searches for queues that match `queues`.")
    ] = 10.0


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline of the file, or one for each queue that matches a pattern."""

    path: str
    """Its place in the file, such as pipelines[2]."""
    job: Job
    options: dict[str, Any]
    """Options with the defaults."""
    queues: str | None = None
    """A pattern of queue names."""
    every_seconds: float | None = None
    """Pause after which a pipeline runs again."""

    @property
    def is_endless(self) -> bool:
        """Whether its pipelines poll, or are repeated."""
        return self.every_seconds is not None or bool(self.options.get("interval_seconds"))

    def config_of(self, queue: str | None = None) -> Any:  # noqa: ANN401 - its Config
        """Return the configuration, or that of one queue."""
        options = dict(self.options)
        if self.queues is not None and queue is not None:
            options.setdefault(_PATTERNS[self.job.kind], queue)
        return configured(self.job, _filled(options, queue or _queue_in(options)), dsn=None)


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """A valid file."""

    settings: Settings
    entries: tuple[Entry, ...]


def declared(found: object, *, dsn: str | None, is_local: bool) -> Declaration:
    """Validate the content of a file. Raises InvalidOption with every error."""
    check = _Check()
    if not isinstance(found, dict):
        raise errors.InvalidOption("write `pipelines:` with a list of pipelines")
    known = ("defaults", "pipelines", *Settings.__struct_fields__)
    check.unknown("", found, known)
    settings = {
        name: check.value(name, found[name], type_)
        for name, type_ in get_type_hints(Settings, include_extras=True).items()
        if name in found
    }
    defaults = _defaults(check, found.get("defaults") or {}, dsn)
    listed = found.get("pipelines")
    if not isinstance(listed, list) or not listed:
        check.add("pipelines", "write a list with at least one pipeline")
        listed = []
    entries = [
        entry
        for number, given in enumerate(listed)
        if (entry := _entry(check, f"pipelines[{number}]", given, defaults, is_local)) is not None
    ]
    _check_defaults(check, found.get("defaults"), {entry.job for entry in entries})
    _check_unique(check, entries)
    check.raise_all()
    return Declaration(settings=Settings(**settings), entries=tuple(entries))


class _Check:
    """Collects errors."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, path: str, text: str) -> None:
        self.found.append(f"{path}: {text}")

    def unknown(self, path: str, given: Mapping[Any, Any], known: Sequence[str]) -> None:
        for name in given:
            if name not in known:
                near = get_close_matches(str(name), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
                self.add(f"{path}.{name}".lstrip("."), f"this field does not exist; {hint}")

    def value(self, path: str, value: object, type_: Any) -> Any:  # noqa: ANN401 - of any type
        try:
            return msgspec.convert(value, type_, strict=False)
        except (msgspec.ValidationError, ValueError) as error:
            self.add(path, _sentence(error))
            return None

    def raise_all(self) -> None:
        if self.found:
            count = len(self.found)
            head = "1 error" if count == 1 else f"{count} errors"
            raise errors.InvalidOption("\n  ".join([f"the fleet has {head}:", *self.found]))


def _defaults(check: _Check, given: object, dsn: str | None) -> dict[str, Any]:
    if not isinstance(given, dict):
        check.add("defaults", "write option names and their values")
        return {}
    return ({} if dsn is None else {"dsn": dsn}) | given


def _check_defaults(check: _Check, defaults: object, jobs: Collection[Job]) -> None:
    """Report defaults that no pipeline of the file has."""
    names = {name for each in jobs for name in each.config.__struct_encode_fields__}
    if isinstance(defaults, dict) and names:
        check.unknown("defaults", defaults, sorted(names))


def _entry(
    check: _Check, path: str, given: object, defaults: Mapping[str, Any], is_local: bool
) -> Entry | None:
    """Validate one entry. Returns None if it has errors."""
    before = len(check.found)
    if not isinstance(given, dict):
        check.add(path, "write `kind:` and the options of the pipeline")
        return None
    kind = given.get("kind")
    if kind not in MODULES:
        check.add(f"{path}.kind", f"choose one of {', '.join(MODULES)}")
        return None
    if is_local and kind not in LOCAL_KINDS:
        check.add(f"{path}.kind", f"a pipeline {kind} needs Spark: leave out --engine local")
        return None
    pipeline = job(kind)
    fields = {field.encode_name: field for field in msgspec.structs.fields(pipeline.config)}
    own = [
        "kind",
        *(["queues"] if kind in _PATTERNS else []),
        *(["every"] if kind in _REPEATED else []),
    ]
    if kind == "replay" and "every" in given:
        check.add(f"{path}.every", "remove it, because a replay runs once: a repeat does nothing")
        own.append("every")
    check.unknown(path, given, [*own, *fields])
    shared = {name: value for name, value in defaults.items() if name in fields}
    options = shared | {name: value for name, value in given.items() if name in fields}
    types = get_type_hints(pipeline.config, include_extras=True)
    for name, value in options.items():
        check.value(f"{path}.{name}", value, types[fields[name].name])
    entry = Entry(
        path=path,
        job=pipeline,
        options=options,
        queues=_queues(check, path, given, options),
        every_seconds=_every(check, path, given),
    )
    is_filled = {*options} | ({_PATTERNS[kind]} if entry.queues is not None else set())
    for name, field in fields.items():
        if (field.required or name == "dsn") and name not in is_filled:
            where = "set it here, in defaults, or as DATABASE_URL" if name == "dsn" else "set it"
            check.add(f"{path}.{name}", f"this option is required: {where}")
    if len(check.found) == before:
        try:
            entry.config_of("queue")
        except errors.InvalidOption as error:
            check.add(path, str(error).partition(": ")[2] or str(error))
    return entry if len(check.found) == before else None


def _queues(
    check: _Check, path: str, given: Mapping[str, Any], options: Mapping[str, Any]
) -> str | None:
    pattern = given.get("queues")
    if pattern is None:
        return None
    option = _PATTERNS.get(str(given.get("kind")))
    if option is None:
        return None  # Reported as an unknown field.
    if not isinstance(pattern, str) or not pattern:
        check.add(f"{path}.queues", 'write a pattern of queue names, such as "orders-*"')
        return None
    if QUEUE not in str(options.get(option, QUEUE)):
        check.add(f"{path}.{option}", f"remove it, because queues matches many, or write {QUEUE}")
    if option == "queue" and QUEUE not in str(options.get("location", "")):
        check.add(f"{path}.location", f"add {QUEUE}, because each queue needs its own location")
    if option == "queue" and QUEUE not in str(options.get("name") or QUEUE):
        check.add(f"{path}.name", f"add {QUEUE}, because each queue needs its own archive")
    return pattern


def _every(check: _Check, path: str, given: Mapping[str, Any]) -> float | None:
    every = given.get("every")
    if every is None or given["kind"] not in _REPEATED:
        return None
    try:
        return seconds_of(every)
    except errors.BadRequest as error:
        check.add(f"{path}.every", str(error))
        return None


def _check_unique(check: _Check, entries: Sequence[Entry]) -> None:
    """Two pipelines with one name would hide each other, and two archives must not share files."""
    seen: dict[tuple[str, str], str] = {}
    for entry in entries:
        if entry.queues is not None:
            continue
        config = entry.config_of()
        keys = [("name", name_of(entry.job, config))]
        if entry.job.kind == "archive":
            keys.append(("location", config.location))
        for field, value in keys:
            if (other := seen.setdefault((field, value), entry.path)) != entry.path:
                check.add(f"{entry.path}.{field}", f"{other} has {value} too: choose another one")


def _filled(options: Mapping[str, Any], queue: str | None) -> dict[str, Any]:
    """Replace the placeholder in texts."""
    if queue is None:
        return dict(options)
    return {
        name: value.replace(QUEUE, queue) if isinstance(value, str) else value
        for name, value in options.items()
    }


def _queue_in(options: Mapping[str, Any]) -> str | None:
    """Return the queue that an entry reads."""
    found = (options.get(name) for name in ("queue", "from"))
    return next((str(each) for each in found if each), None)


def _sentence(error: Exception) -> str:
    """Return an error of msgspec in the style of a file: $.a becomes .a."""
    text, _, where = str(error).partition(" - at `")
    inner = where.rstrip("`").removeprefix("$").lstrip(".")
    return f"{inner}: {text}" if inner else text[:1].lower() + text[1:]
