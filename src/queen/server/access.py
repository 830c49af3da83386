"""Who calls, and what that caller may do."""

from enum import StrEnum
from typing import Final

import msgspec

from queen import errors


class Permission(StrEnum):
    """What a call needs; the contract says which role has which."""

    PRODUCE = "produce"
    CONSUME = "consume"
    BROWSE = "browse"
    CONFIGURE = "configure"
    OPERATE = "operate"
    DESTROY = "destroy"
    ADMIN = "admin"


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who was let in."""

    name: str
    permissions: frozenset[Permission]

    def require(self, permission: Permission) -> None:
        """Raise Forbidden unless the caller may do this at all."""
        if permission not in self.permissions:
            raise errors.Forbidden(f"{self.name} lacks the permission to {permission}")


ANYBODY: Final = Caller(name="anonymous", permissions=frozenset(Permission))
"""Whoever reaches a server without authentication, which listens on loopback alone."""
