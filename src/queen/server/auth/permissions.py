"""Callers and their permissions."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from queen import errors
from queen.engine.push.producers import SHARED
from queen.wire.access import Scope


class Permission(StrEnum):
    """A permission. The contract lists the permissions of each role."""

    PRODUCE = "produce"
    CONSUME = "consume"
    BROWSE = "browse"
    CONFIGURE = "configure"
    OPERATE = "operate"
    DESTROY = "destroy"
    ADMIN = "admin"

    # Looked up several times per request. That of Enum is written in Python.
    __hash__ = str.__hash__


AUDITED: Final = frozenset(
    {Permission.CONFIGURE, Permission.OPERATE, Permission.DESTROY, Permission.ADMIN}
)
"""Calls that need one of these are recorded in the audit log."""

ROLES: Final[Mapping[str, frozenset[Permission]]] = MappingProxyType(
    {
        "admin": frozenset(Permission),
        "read-write": frozenset(Permission) - {Permission.DESTROY, Permission.ADMIN},
        "read-only": frozenset({Permission.BROWSE}),
        "write-only": frozenset({Permission.PRODUCE}),
    }
)


_SPECIAL: Final = re.compile(r"[\\%_]")


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern in which only ``*`` is special."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    *middle, last = rest
    if len(name) < len(first) + len(last) or not name.startswith(first):
        return False
    if not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _like(pattern: str | None) -> str:
    """Convert a pattern to one of LIKE; None matches every name."""
    if pattern is None:
        return "%"
    return _SPECIAL.sub(r"\\\g<0>", pattern).replace("*", "%")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated caller."""

    name: str
    kind: Literal["anonymous", "key", "jwt"] = "anonymous"
    permissions: frozenset[Permission]
    scopes: tuple[Scope, ...] | None = None
    """None: every queue, without a lookup."""
    requests_per_second: float | None = None
    key_id: str | None = None
    digest: bytes | None = None
    """SHA-256 of its API key. A key that is rotated with grace has two."""
    until: float | None = None
    """Expiry of its token, in seconds since 1970."""

    @property
    def producer_scope(self) -> str:
        """
        The callers that share producer ids with this one: those with the same scopes.

        The key does not matter: after a lost response, a request is often repeated with another
        key, because the key was replaced or the second of two servers sends it.
        """
        return _producer_scope(self.scopes)

    def require(self, permission: Permission) -> None:
        """Raise Forbidden unless the caller has this permission."""
        if permission not in self.permissions:
            raise errors.Forbidden(f"{self.name} lacks the permission to {permission}")

    def covers(self, role: str | None, permissions: Sequence[str] | None) -> bool:
        """Whether the caller has all permissions of such a key. An unknown role may have more."""
        if role is not None:
            return role in ROLES and ROLES[role] <= self.permissions
        return self.permissions.issuperset(permissions or ())

    def includes(self, other: "Caller") -> bool:
        """Whether the caller has at least the permissions and the scopes of another one."""
        return self.permissions >= other.permissions and (
            self.scopes is None or (other.scopes is not None and {*other.scopes} <= {*self.scopes})
        )

    def require_unscoped(self) -> None:
        """Raise Forbidden for a caller with scopes, because this concerns the whole server."""
        if self.scopes is not None:
            raise errors.Forbidden(
                f"{self.name} may not do this, because it is limited to some queues"
            )

    def sees(self, queue: str, namespace: str | None) -> bool:
        """Whether a queue is in scope. None: its namespace is unknown, so only the name counts."""
        if self.scopes is None:
            return True
        return any(
            (scope.queue is None or matches(scope.queue, queue))
            and (
                scope.namespace is None
                or (namespace is not None and matches(scope.namespace, namespace))
            )
            for scope in self.scopes
        )

    @property
    def patterns(self) -> list[str] | None:
        """Return the scopes as patterns for ``queen.sees``; None: every queue."""
        if self.scopes is None:
            return None
        patterns = [f"{_like(scope.queue)}\n{_like(scope.namespace)}" for scope in self.scopes]
        # PostgreSQL cannot store such names, so these patterns match no queue.
        return [each for each in patterns if "\0" not in each and _is_utf8(each)]

    def may_name(self, queue: str, namespace: str) -> bool:
        """Whether a queue may be moved into a namespace: needs a scope with a namespace."""
        return self.scopes is None or any(
            scope.namespace is not None
            and matches(scope.namespace, namespace)
            and (scope.queue is None or matches(scope.queue, queue))
            for scope in self.scopes
        )

    def sees_all_of(self, namespace: str) -> bool:
        """Whether every queue of a namespace is in scope, including future ones."""
        return self.scopes is None or any(
            scope.queue in (None, "*")
            and (scope.namespace is None or matches(scope.namespace, namespace))
            for scope in self.scopes
        )


@lru_cache(maxsize=10_000)
def _producer_scope(scopes: tuple[Scope, ...] | None) -> str:
    if scopes is None:
        return SHARED
    texts = sorted({msgspec.json.encode(scope) for scope in scopes})
    return sha256(b"\n".join(texts)).hexdigest()[:32]


ANYBODY: Final = Caller(name="anonymous", permissions=frozenset(Permission))
"""The caller on a server without authentication, which listens on loopback by default."""

ANONYMOUS: Final = Caller(name="anonymous", permissions=frozenset())
"""An unauthenticated caller of a public route."""


def permissions_of(role: str | None, names: Sequence[str] | None) -> frozenset[Permission]:
    """Return the permissions of a role, or of a list of names."""
    if role is not None:
        return ROLES.get(role, frozenset())
    return frozenset(Permission(name) for name in names or ())
