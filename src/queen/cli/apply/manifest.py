"""The manifest: the queues, schedules and API keys that a configuration owns."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import msgspec

from queen import errors
from queen.cli.apply.documents import Document, Path
from queen.cli.apply.problems import explained, field_type
from queen.cli.support.exit_codes import FileTrouble
from queen.client.durations import seconds_of
from queen.client.options import with_units
from queen.codec.names import check_name, check_queue_name
from queen.wire.access import Scope, TokenRequest
from queen.wire.messages import Manager
from queen.wire.options import QueueOptions, RateLimit
from queen.wire.resources import ScheduleRequest

T = TypeVar("T")

KINDS: Final = ("queues", "schedules", "keys")
_MOST_NAME_BYTES: Final = 2**16
"""The server has its own, smaller limit, which is a setting."""
_MOST_PROBLEMS: Final = 20
_NOT_HERE: Final = {
    "managedBy": "apply sets it to the manager of this file",
    "deadLetterQueue": "write dlqAfterMaxRetries",
    "name": "the name is the key of this mapping",
    "options": "write the options directly below the name of the queue",
}


class Queue(QueueOptions, frozen=True, kw_only=True, omit_defaults=True):
    """A queue. An absent option has its default, except ``paused``, which stays as it is."""

    namespace: str = ""
    task: str = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The desired state. Objects that the manager owns, and that are not listed, can be pruned."""

    manager: str
    queues: Mapping[str, Queue]
    schedules: Mapping[str, ScheduleRequest]
    keys: Mapping[str, TokenRequest]
    has_section: bool = True
    """Whether it has a section, if only an empty one such as `queues: {}`."""


class _FieldError(Exception):
    """A field has an invalid value."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


def fields_of(type_: type[msgspec.Struct]) -> list[str]:
    """Return the fields of an object in a manifest."""
    return [name for name in type_.__struct_encode_fields__ if name not in _NOT_HERE]


class _Reader:
    """Reads documents, and collects their problems instead of ending at the first."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.managers: dict[str, str] = {}
        """Each manager and where it is."""
        self.found: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        self.has_section = False

    def read(self, document: Document) -> None:
        value = document.value
        if value is None:
            return
        if not self._is_mapping(document, (), value):
            return
        self._check_names(document, (), value, ("manager", *KINDS))
        if "manager" in value:
            manager = self._convert(document, ("manager",), lambda: _manager(value["manager"]))
            if manager is not None:
                self.managers.setdefault(manager, document.place(("manager",)))
        for kind, read in (("queues", _queue), ("schedules", _schedule), ("keys", _key)):
            section = value.get(kind)
            if section is not None and self._is_mapping(document, (kind,), section):
                self.has_section = True
                for name, each in section.items():
                    self._read_one(document, (kind, name), {} if each is None else each, read)

    def _read_one(
        self,
        document: Document,
        path: Path,
        value: Any,  # noqa: ANN401 - of YAML
        read: Callable[[str, Any], Any],
    ) -> None:
        kind, name = str(path[0]), str(path[1])
        if not self._is_mapping(document, path, value):
            return
        if name in self.found[kind]:
            self._add(document, path, "defined twice. Remove one of the two")
        is_known = self._check_names(document, path, value, _FIELDS[kind])
        for there, inner, names in _nested(value):
            is_known &= self._check_names(document, (*path, *there), inner, names)
        if is_known:
            found = self._convert(document, path, lambda: read(name, value))
            if found is not None:
                self.found[kind][name] = found

    def _convert(self, document: Document, path: Path, convert: Callable[[], T]) -> T | None:
        try:
            return convert()
        except _FieldError as error:
            self._add(document, (*path, error.field), str(error))
        except errors.QueenError as error:
            self._add(document, path, str(error))
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `$")
            inner = re.findall(r"\.(\w+)|\[(\d+)\]", where)
            steps = [int(index) if index else name for name, index in inner]
            whole = (*path, *steps)
            type_ = _TYPES.get(str(path[0])) if steps else None
            of_field = type_ and field_type(type_, str(steps[0]))
            self._add(document, whole, explained(what, of_field, document.at(whole)))
        return None

    def _is_mapping(self, document: Document, path: Path, value: Any) -> bool:  # noqa: ANN401
        if isinstance(value, dict):
            return True
        self._add(document, path, "must be a mapping of names to values")
        return False

    def _check_names(
        self, document: Document, path: Path, value: Mapping[str, Any], names: Iterable[str]
    ) -> bool:
        known = list(names)
        unknown = [name for name in value if name not in known]
        for name in unknown:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; use {_listed(known)}"
            if path and name in _NOT_HERE:
                hint = f"; {_NOT_HERE[name]}"
            self._add(document, (*path, name), f"unknown field{hint}")
        return not unknown

    def _add(self, document: Document, path: Path, what: str) -> None:
        steps = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
        name = "".join(steps).removeprefix(".")
        self.problems.append(f"{document.place(path)}: {name + ': ' if name else ''}{what}")


_TYPES: Final[Mapping[str, type[msgspec.Struct]]] = {
    "queues": Queue,
    "schedules": ScheduleRequest,
    "keys": TokenRequest,
}
_FIELDS: Final[Mapping[str, list[str]]] = {kind: fields_of(each) for kind, each in _TYPES.items()}


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _nested(value: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any], Sequence[str]]]:
    """Yield the path and the content of each object in an object, and the fields it can have."""
    if isinstance(value.get("rateLimit"), dict):
        yield ("rateLimit",), value["rateLimit"], RateLimit.__struct_encode_fields__
    if isinstance(value.get("scopes"), list):
        for at, scope in enumerate(value["scopes"]):
            if isinstance(scope, dict):
                yield ("scopes", at), scope, Scope.__struct_encode_fields__


def _manager(value: Any) -> str:  # noqa: ANN401 - of YAML
    return msgspec.convert(value, Manager)


def _queue(name: str, value: dict[str, Any]) -> Queue:
    check_queue_name("queue", name, _MOST_NAME_BYTES)
    return msgspec.convert({key: _with_units(key, each) for key, each in value.items()}, Queue)


def _with_units(name: str, value: Any) -> Any:  # noqa: ANN401 - of YAML
    try:
        return with_units(name, value)
    except errors.QueenError as error:
        raise _FieldError(name, str(error)) from error


def _schedule(name: str, value: dict[str, Any]) -> ScheduleRequest:
    check_name("schedule", name, _MOST_NAME_BYTES)
    whole: dict[str, Any] = {"name": name, **value}
    whole["payload"] = msgspec.Raw(msgspec.json.encode(value.get("payload")))
    if isinstance(ttl := value.get("ttlSeconds"), str):
        try:
            whole["ttlSeconds"] = seconds_of(ttl, "ttlSeconds")
        except errors.QueenError as error:
            raise _FieldError("ttlSeconds", str(error)) from error
    schedule = msgspec.convert(whole, ScheduleRequest)
    _check_times(schedule)
    return schedule


def _check_times(schedule: ScheduleRequest) -> None:
    """Raise _FieldError for the time zones and cron expressions that the server rejects."""
    from queen.engine.sources.cron import first_tick, zone_of

    try:
        zone_of(schedule.time_zone)
    except errors.QueenError as error:
        raise _FieldError("timeZone", str(error)) from error
    try:
        first_tick(schedule.cron, schedule.time_zone, datetime.now(UTC))
    except errors.QueenError as error:
        raise _FieldError("cron", str(error)) from error


def _key(name: str, value: dict[str, Any]) -> TokenRequest:
    return msgspec.convert({"name": name, **value}, TokenRequest)


def manifest_of(documents: Iterable[Document]) -> Manifest:
    """Combine documents into one manifest. Raises FileTrouble with all problems."""
    reader = _Reader()
    for document in documents:
        reader.read(document)
    problems = reader.problems
    if len(reader.managers) > 1:
        named = ", ".join(f"{name} ({place})" for name, place in reader.managers.items())
        problems.append(f"all documents need the same manager: {named}")
    elif not reader.managers and not problems:
        problems.append(
            "manager is missing. Add a line such as `manager: shop`. The name marks all objects"
            " that this file creates."
        )
    if problems:
        shown = problems[:_MOST_PROBLEMS]
        if len(problems) > len(shown):
            shown.append(f"and {len(problems) - len(shown)} more problems")
        raise FileTrouble("\n".join(shown))
    (manager,) = reader.managers
    return Manifest(manager=manager, **reader.found, has_section=reader.has_section)
