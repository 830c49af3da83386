"""The table of routes: what is served, what is documented and who may call it are one thing."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.http.call import Handler, split_path

API: Final = "/api/v1"
Span = Literal["send", "receive", "settle", "transaction"]
"""Operations that the messaging conventions of OpenTelemetry name."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: str
    path: str
    """With names in braces, each one percent-encoded segment: ``/pop/queue/{queue}``."""
    handler: Handler
    summary: str
    tag: str = ""
    """Its section in the OpenAPI document; if empty, the name of the handler's module."""
    permission: Permission | None
    """What the caller must be allowed to do; None: the handler asks, or nothing is needed."""
    is_public: bool = False
    """Answered without asking who calls."""
    is_payload_view: bool = False
    """Shows payloads to people, which the audit log tells of."""
    is_shared: bool = False
    """Answered with what another caller was a moment ago, to who says that this will do."""
    span: Span | None = None
    """The operation of its span, if calls of it get one."""
    is_probe: bool = False
    """Asked all day by machines, some with parameters of their own: never logged."""
    body: type[Any] | None = None
    """None: anything but an empty object is refused."""
    query: type[Any] | None = None
    """None: any parameter is refused, unless it is a probe's."""
    headers: Mapping[str, str] = {}
    """Headers of its own that it obeys, and what they say."""
    answers: Mapping[int, type[Any] | None] = {}
    """Status to struct; None where the answer has no body or is not JSON."""
    is_text_too: bool = False
    """Who does not ask for JSON, if there is any, gets plain text."""
    problems: tuple[type[errors.QueenError], ...] = ()
    """What it may refuse besides what every route may."""


class _Node:
    __slots__ = ("children", "name", "routes", "wildcard")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.wildcard: _Node | None = None
        self.name = ""
        self.routes: dict[str, Route] = {}


class Router:
    """Finds routes by the raw path: a name may hold a slash, percent-encoded."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Node()
        self._plain: dict[tuple[str, bytes], Route] = {}
        for route in self.routes:
            node = self._root
            for part in route.path.split("/")[1:]:
                if part.startswith("{"):
                    if node.wildcard is None:
                        node.wildcard = _Node()
                        node.wildcard.name = part[1:-1]
                    if node.wildcard.name != part[1:-1]:
                        raise ValueError(f"{route.path}: {part} has another name elsewhere")
                    node = node.wildcard
                else:
                    node = node.children.setdefault(part, _Node())
            if route.method in node.routes:
                raise ValueError(f"{route.method} {route.path} is there twice")
            node.routes[route.method] = route
            if "{" not in route.path:
                self._plain[route.method, route.path.encode()] = route

    def find(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        """The route, and the names in its path; raises NoSuchRoute or MethodNotAllowed."""
        if (plain := self._plain.get((method, raw_path))) is not None:
            return plain, {}
        wanted = "GET" if method == "HEAD" else method
        allowed: set[str] = set()
        for node, names in _nodes(self._root, split_path(raw_path)):
            if (route := node.routes.get(wanted)) is not None:
                return route, names
            allowed |= set(node.routes)
        if not allowed:
            raise errors.NoSuchRoute(f"there is nothing under {_shown(raw_path)}")
        allow = ", ".join(sorted(allowed))
        raise errors.MethodNotAllowed(
            f"{method} does not go with {_shown(raw_path)}; try {allow}", allow=allow
        )


def _nodes(node: _Node, parts: list[str]) -> Iterator[tuple[_Node, dict[str, str]]]:
    """Where a path may end, words before names: a name may be a word that stands beside it."""
    if not parts:
        yield node, {}
        return
    part, rest = parts[0], parts[1:]
    if (child := node.children.get(part)) is not None:
        yield from _nodes(child, rest)
    if part and (wildcard := node.wildcard) is not None:
        for found, names in _nodes(wildcard, rest):
            yield found, {wildcard.name: part, **names}


def _shown(raw_path: bytes) -> str:
    return raw_path[:200].decode("ascii", "replace")
