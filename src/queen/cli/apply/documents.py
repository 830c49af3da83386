"""Read YAML 1.2 documents, with the line of every value, and without repeated keys."""

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent, Event
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from queen.cli.support.exit_codes import FileTrouble

Path = tuple[str | int, ...]

_MOST_VALUES: Final = 1_000_000
"""A few lines of nested aliases could otherwise fill the memory."""
_MOST_LEVELS: Final = 100
"""PyYAML and `Document` are recursive. PyYAML's parser in C crashes at some 100,000 levels."""
_TOO_DEEP: Final = f"values are nested more than {_MOST_LEVELS} levels deep"
_MOST_DIGITS: Final = 1_000
_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
_SCALARS: Final[dict[str, tuple[str, str]]] = {
    "null": (r"null|Null|NULL|~|", "~nN"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
        "-+.0123456789",
    ),
    "merge": (r"<<", "<"),
}
"""
The core schema of YAML 1.2, which is that of JSON: `on`, `12:30` and `2026-01-31` are strings.

PyYAML follows YAML 1.1, in which they are true, 750 and a date.
"""


if TYPE_CHECKING:
    Loader = yaml.SafeLoader
else:
    Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # Six times as fast, if it exists.


class _Loader(Loader):
    """Composes nodes. `Document` makes values of them."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own


for _name, (_pattern, _first) in _SCALARS.items():
    for _letter in ["", *_first] if _name == "null" else _first:
        _Loader.yaml_implicit_resolvers.setdefault(_letter, []).append(
            (_TAG + _name, re.compile(rf"^(?:{_pattern})$"))
        )


class Document:
    """One document: its value, and the line of each part of it."""

    def __init__(self, file: str, node: Node | None) -> None:
        self.file = file
        self._lines: dict[Path, int] = {}
        self._open: set[int] = set()
        self._values = 0
        self.value: Any = None if node is None else self._value(node, ())

    def place(self, path: Path) -> str:
        """Return `file:line` of a value, or of the nearest one around it."""
        while path and path not in self._lines:
            path = path[:-1]
        return f"{self.file}:{self._lines.get(path, 1)}"

    def at(self, path: Path) -> Any:  # noqa: ANN401 - of JSON
        """Return a value, or None if the document has none there."""
        value = self.value
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def _value(self, node: Node, path: Path) -> Any:  # noqa: ANN401 - of JSON
        self._lines.setdefault(path, node.start_mark.line + 1)
        self._values += 1
        if self._values > _MOST_VALUES:
            raise self._trouble(
                node,
                f"the document has more than {_MOST_VALUES:,} values. Split it into several"
                " documents, and remove nested aliases",
            )
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise self._trouble(node, "an alias refers to a value that contains it")
        if len(self._open) >= _MOST_LEVELS:  # By aliases: `_check_depth` found all others.
            raise self._trouble(node, _TOO_DEEP)
        self._open.add(id(node))
        try:
            if isinstance(node, SequenceNode) and node.tag == f"{_TAG}seq":
                return [self._value(each, (*path, at)) for at, each in enumerate(node.value)]
            if isinstance(node, MappingNode) and node.tag == f"{_TAG}map":
                return self._mapping(node, path)
        finally:
            self._open.discard(id(node))
        raise self._trouble(node, f"the tag {node.tag} is not supported")

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                merged = {**self._merged(value, path), **merged}
                continue
            if not isinstance(key, ScalarNode) or key.tag != f"{_TAG}str":
                if not isinstance(key, ScalarNode):
                    raise self._trouble(key, "a key must be a string")
                raise self._trouble(key, f'{key.value} is not a string: write "{key.value}"')
            name: str = key.value
            if name in found:
                raise self._trouble(key, f"{name} is defined twice. Remove one of the two")
            self._lines[*path, name] = key.start_mark.line + 1
            found[name] = self._value(value, (*path, name))
        return {**merged, **found}

    def _merged(self, node: Node, path: Path) -> dict[str, Any]:
        """Return the fields of `<<: *name`, or of a list of them, the first of which wins."""
        nodes = node.value if isinstance(node, SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for each in nodes:
            if not isinstance(each, MappingNode):
                raise self._trouble(node, "<< needs a mapping")
            merged = {**self._value(each, (*path, "<<")), **merged}
        return merged

    def _scalar(self, node: ScalarNode) -> Any:  # noqa: ANN401 - of JSON
        text: str = node.value
        match node.tag.removeprefix(_TAG):
            case "str" | "merge":
                return text
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" if len(text) <= _MOST_DIGITS:
                return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
            case "float" if math.isfinite(float(text)):
                return float(text)
            case "int" | "float":
                raise self._trouble(node, "the number is too large")
            case _:
                raise self._trouble(node, f"the tag {node.tag} is not supported")

    def _trouble(self, node: Node, what: str) -> FileTrouble:
        return FileTrouble(f"{self.file}:{node.start_mark.line + 1}: {what}")


def documents_of(file: str, text: str) -> Iterator[Document]:
    """Parse all documents of a file. JSON is YAML, too."""
    try:
        _check_depth(file, text)
        nodes = yaml.compose_all(text, Loader=_Loader)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - no types
        for node in cast("Iterator[Node | None]", nodes):
            yield Document(file, node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}" if mark else file
        raise FileTrouble(f"{where}: invalid YAML: {_explained(error, text)}") from error
    except yaml.YAMLError as error:
        raise FileTrouble(f"{file}: invalid YAML: {error}") from error


def _check_depth(file: str, text: str) -> None:
    """Raise FileTrouble if values are nested too deep to compose them."""
    depth = 0
    events = yaml.parse(text, Loader=_Loader)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - no types
    for event in cast("Iterator[Event]", events):
        if isinstance(event, CollectionStartEvent):
            depth += 1
            if depth > _MOST_LEVELS:
                place = f"{file}:{event.start_mark.line + 1}" if event.start_mark else file
                raise FileTrouble(f"{place}: {_TOO_DEEP}")
        elif isinstance(event, CollectionEndEvent):
            depth -= 1


def _explained(error: yaml.MarkedYAMLError, text: str) -> str:
    """Return the message of the parser, the place where the structure begins, and a remedy."""
    what = str(error.problem or error.context)
    start, mark = error.context_mark, error.problem_mark
    if start and mark and start.line != mark.line and error.context:
        what += f" ({error.context} that starts in line {start.line + 1})"
    if "alias" in f"{error.context} {error.problem}":
        what += '. Put a text that begins with * in quotes, for example "* * * * *"'
    elif mark and "\t" in "".join(text.splitlines()[mark.line : mark.line + 1]):
        what += ". Indent with spaces instead of tabs"
    return what
