"""Find the route of a request."""

from collections.abc import Iterable, Iterator
from urllib.parse import unquote_to_bytes

from queen import errors
from queen.server.http.call import Route


class _Node:
    __slots__ = ("children", "name", "routes", "wildcard")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.wildcard: _Node | None = None
        self.name = ""
        self.routes: dict[str, Route] = {}


class Router:
    """Finds routes by the raw path, because a name may contain an encoded slash."""

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
                        raise ValueError(f"{route.path}: {part} has another name in another route")
                    node = node.wildcard
                else:
                    node = node.children.setdefault(part, _Node())
            if route.method in node.routes:
                raise ValueError(f"{route.method} {route.path} is defined twice")
            node.routes[route.method] = route
            if "{" not in route.path:
                self._plain[route.method, route.path.encode()] = route

    def find(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        """Return the route and the names in its path; raises NoSuchRoute or MethodNotAllowed."""
        if (plain := self._plain.get((method, raw_path))) is not None:
            return plain, {}
        wanted = "GET" if method == "HEAD" else method
        allowed: set[str] = set()
        for node, names in _nodes(self._root, _split(raw_path)):
            if (route := node.routes.get(wanted)) is not None:
                return route, names
            allowed |= set(node.routes)
        if not allowed:
            raise errors.NoSuchRoute(f"the path {readable(raw_path)} does not exist")
        allow = ", ".join(sorted(allowed))
        raise errors.MethodNotAllowed(
            f"{method} is not supported for {readable(raw_path)}; use {allow}", allow=allow
        )


def _nodes(node: _Node, parts: list[str]) -> Iterator[tuple[_Node, dict[str, str]]]:
    """Yield the nodes that a path may end at, fixed segments first, because names may equal one."""
    if not parts:
        yield node, {}
        return
    part, rest = parts[0], parts[1:]
    if (child := node.children.get(part)) is not None:
        yield from _nodes(child, rest)
    if part and (wildcard := node.wildcard) is not None:
        for found, names in _nodes(wildcard, rest):
            yield found, {wildcard.name: part, **names}


def _split(raw_path: bytes) -> list[str]:
    """Split a path into segments, then decode them, so that names may contain a slash."""
    try:
        parts = [
            (unquote_to_bytes(part) if b"%" in part else part).decode("utf-8")
            for part in raw_path.split(b"/")[1:]
        ]
    except UnicodeDecodeError as error:
        raise errors.BadRequest("the path is not UTF-8") from error
    if b"%00" in raw_path and any("\x00" in part for part in parts):
        raise errors.BadRequest("the path contains a NUL character")
    return parts


def readable(raw_path: bytes) -> str:
    """Return a path as text for an error."""
    return raw_path[:200].decode("ascii", "replace")
