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
    """What a call needs; the contract says which role has which."""

    PRODUCE = "produce"
    CONSUME = "consume"
    BROWSE = "browse"
    CONFIGURE = "configure"
    OPERATE = "operate"
    DESTROY = "destroy"
    ADMIN = "admin"


AUDITED: Final = frozenset(
    {Permission.CONFIGURE, Permission.OPERATE, Permission.DESTROY, Permission.ADMIN}
)
"""A call that needs one of these leaves a record."""

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
    """Whether ``*`` in the pattern can stand for letters such that it is the name; no regex."""
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
    """The pattern as one of LIKE: ``*`` is its only wildcard; None matches every name."""
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
    """Somebody who was let in."""

    name: str
    kind: Literal["anonymous", "key", "jwt"] = "anonymous"
    permissions: frozenset[Permission]
    scopes: tuple[Scope, ...] | None = None
    """None: every queue. Such a caller costs no look-up."""
    requests_per_second: float | None = None
    key_id: str | None = None
    digest: bytes | None = None
    """SHA-256 of the key that let it in: a key has two while it is rotated with grace."""
    until: float | None = None
    """When the token that said so ends, in seconds since 1970."""

    @property
    def producer_scope(self) -> str:
        """
        Which callers share producer ids with this one: those with the same scopes.

        Not those with the same key: a request whose answer got lost is often repeated with another
        key, after a key was replaced or by the second of two servers.
        """
        return _producer_scope(self.scopes)

    def require(self, permission: Permission) -> None:
        """Raise Forbidden unless the caller may do this at all."""
        if permission not in self.permissions:
            raise errors.Forbidden(f"{self.name} lacks the permission to {permission}")

    def covers(self, role: str | None, permissions: Sequence[str] | None) -> bool:
        """Whether the caller may do all that a key with these may; an unknown role may do more."""
        if role is not None:
            return role in ROLES and ROLES[role] <= self.permissions
        return self.permissions.issuperset(permissions or ())

    def require_unscoped(self) -> None:
        """Raise Forbidden for a caller with scopes: this is about the whole server."""
        if self.scopes is not None:
            raise errors.Forbidden(f"{self.name} may not do this: its scopes are some queues alone")

    def sees(self, queue: str, namespace: str | None) -> bool:
        """Whether a queue is in scope; None: its namespace is not known, its name must do."""
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
        """The scopes as ``queen.sees`` takes them, for statements that list; None: every queue."""
        if self.scopes is None:
            return None
        patterns = [f"{_like(scope.queue)}\n{_like(scope.namespace)}" for scope in self.scopes]
        # PostgreSQL cannot store what is left out here, so no name has it.
        return [each for each in patterns if "\0" not in each and _is_utf8(each)]

    def may_name(self, queue: str, namespace: str) -> bool:
        """Whether a queue may be put into a namespace: a scope of queues alone does not say so."""
        return self.scopes is None or any(
            scope.namespace is not None
            and matches(scope.namespace, namespace)
            and (scope.queue is None or matches(scope.queue, queue))
            for scope in self.scopes
        )

    def sees_all_of(self, namespace: str) -> bool:
        """Whether every queue of a namespace is in scope, also those that come to be."""
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
"""Whoever reaches a server without authentication, which listens on loopback alone."""

NOBODY: Final = Caller(name="anonymous", permissions=frozenset())
"""Who did not say who it is, on a route that is public."""


def permissions_of(role: str | None, names: Sequence[str] | None) -> frozenset[Permission]:
    """What a role, or a list of permissions, allows."""
    if role is not None:
        return ROLES.get(role, frozenset())
    return frozenset(Permission(name) for name in names or ())
