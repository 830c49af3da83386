"""Verify JWTs: the server chooses the algorithm, and checks every claim."""

import base64
import hashlib
import json
import math
import time
from typing import Any, Final, cast

import jwt
import msgspec

from queen import errors
from queen.bounded import BoundedDict
from queen.server.auth.jwks import Jwks, PublicKey, algorithm_of, key_of_setting
from queen.server.auth.permissions import ROLES, Caller, Permission
from queen.settings import Settings
from queen.wire.access import Scope

_MOST_LETTERS: Final = 8 * 2**10
_MOST_NAME_LETTERS: Final = 255
_MOST_SCOPES: Final = 100
_MOST_TOKENS: Final = 10_000
_BELIEVED_SECONDS: Final = 60.0
"""How long a verified token is cached."""
_HEADERS: Final = frozenset({"alg", "typ", "kid", "x5t", "x5t#S256"})
"""Other headers are rejected: they embed keys in the token, or require unknown rules."""
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_ASYMMETRIC: Final = frozenset({"RS256", "ES256", "EdDSA"})
_REQUIRED: Final = ["exp", "iss", "aud", "sub"]


class _Malformed(ValueError):
    """A malformed token."""


class Jwts:
    """Verifies tokens, and caches the verified ones for a while."""

    def __init__(self, settings: Settings) -> None:
        self._algorithms = frozenset(settings.jwt_algorithm_names)
        self._issuer = settings.jwt_issuer or ""
        self._audience = settings.jwt_audience or ""
        self._leeway = settings.jwt_leeway_seconds
        self._claim = settings.jwt_roles_claim
        self._prefix = settings.jwt_roles_prefix or ""
        self._secret = settings.jwt_secret
        self._jwks = Jwks(settings.jwt_jwks_url) if settings.jwt_jwks_url else None
        self._key = key_of_setting(settings.jwt_public_key) if settings.jwt_public_key else None
        self._check_settings()
        self._verified = BoundedDict[bytes, tuple[Caller, float]](_MOST_TOKENS)

    def _check_settings(self) -> None:
        if not self._issuer or not self._audience:
            raise errors.BadSettings("QUEEN_AUTH=jwt needs JWT_ISSUER and JWT_AUDIENCE")
        if self._algorithms == frozenset({"HS256"}):
            if self._secret is None or self._key is not None or self._jwks is not None:
                raise errors.BadSettings("HS256 needs JWT_SECRET, and no other key")
            if len(self._secret.encode()) < 32:
                raise errors.BadSettings("JWT_SECRET must have at least 32 bytes")
            return
        if not self._algorithms or not self._algorithms <= _ASYMMETRIC:
            raise errors.BadSettings(
                "JWT_ALGORITHMS must be only HS256, or some of RS256, ES256, EdDSA"
            )
        if self._secret is not None or (self._key is None) == (self._jwks is None):
            raise errors.BadSettings(
                "RS256, ES256 and EdDSA need either JWT_PUBLIC_KEY or JWT_JWKS_URL"
            )
        if self._key is not None and algorithm_of(self._key) not in self._algorithms:
            raise errors.BadSettings("the algorithm of JWT_PUBLIC_KEY is not in JWT_ALGORITHMS")

    async def close(self) -> None:
        if self._jwks is not None:
            await self._jwks.close()

    async def caller(self, text: str) -> Caller:
        """Return the caller of a token; raises Unauthorized."""
        digest = hashlib.sha256(text.encode("latin-1", "replace")).digest()
        verified = self._verified.get(digest)
        if verified is not None and verified[1] > time.time():
            return verified[0]
        try:
            caller = await self._check(text)
        except (ValueError, jwt.PyJWTError, RecursionError, OverflowError) as error:
            raise errors.Unauthorized("this token is not valid") from error
        assert caller.until is not None
        self._verified[digest] = (caller, min(caller.until, time.time() + _BELIEVED_SECONDS))
        return caller

    async def _check(self, text: str) -> Caller:
        header, claims = _parts(text)
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise _Malformed("another algorithm")
        type_ = header.get("typ", "JWT")
        if not isinstance(type_, str) or type_.lower() not in _TYPES or header.keys() - _HEADERS:
            raise _Malformed("unknown header")
        key = await self._key_for(header)
        if self._secret is None and algorithm_of(key) != algorithm:
            raise _Malformed("the key is for another algorithm")
        _check_types(claims)
        jwt.decode(
            text,
            key,
            algorithms=[algorithm],  # A configured one, and the one of this key.
            issuer=self._issuer,
            audience=self._audience,
            leeway=self._leeway,
            options={"require": _REQUIRED},
        )
        return Caller(
            name=f"jwt:{claims['sub']}",
            kind="jwt",
            permissions=_permissions_of(_roles_of(claims, self._claim), self._prefix),
            scopes=_scopes_of(claims),
            until=claims["exp"] + self._leeway,
        )

    async def _key_for(self, header: dict[str, Any]) -> PublicKey | str:
        if self._secret is not None:
            return self._secret
        if self._key is not None:
            return self._key
        assert self._jwks is not None
        return await self._jwks.key(header.get("kid"))


def _parts(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Decode header and claims, as strictly as possible."""
    if len(text) > _MOST_LETTERS or not text.isascii():
        raise _Malformed("too long")
    parts = text.split(".")
    if len(parts) != 3:
        raise _Malformed("not three parts")
    header, claims, signature = (_decoded(part) for part in parts)
    if not signature:
        raise _Malformed("not signed")
    return _object(header), _object(claims)


def _decoded(part: str) -> bytes:
    raw = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if base64.urlsafe_b64encode(raw).rstrip(b"=") != part.encode():
        raise _Malformed("not in canonical form")
    return raw


def _object(raw: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            # Forgeries use this to make two parsers disagree about the value.
            raise _Malformed("duplicate name")
        return found

    def refuse(text: str) -> float:
        raise _Malformed(f"{text} is not JSON")

    try:
        value: Any = json.loads(raw.decode("utf-8"), object_pairs_hook=once, parse_constant=refuse)
    except ValueError as error:
        raise _Malformed("not JSON") from error
    if not isinstance(value, dict):
        raise _Malformed("not an object")
    return value  # pyright: ignore[reportUnknownVariableType] - of JSON


def _check_types(claims: dict[str, Any]) -> None:
    """Raise unless timestamps are numbers and names are strings: PyJWT would convert them."""
    for name in ("exp", "nbf", "iat"):
        value = claims.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _Malformed(f"{name} is not a number")
        if not math.isfinite(value) or not 0 <= value < 2**53:
            raise _Malformed(f"{name} is not a timestamp")
    if "exp" not in claims or not isinstance(claims.get("iss"), str):
        raise _Malformed("exp and iss are required")
    name = claims.get("sub")
    if not isinstance(name, str) or not 0 < len(name) <= _MOST_NAME_LETTERS:
        raise _Malformed("sub is required")
    if not name.isprintable():
        raise _Malformed("sub has control characters")


def _roles_of(claims: dict[str, Any], claim: str | None) -> list[str]:
    roles: Any = claims.get("roles", [])
    if claim is not None:
        roles = _at(claims, claim)
        roles = [roles] if isinstance(roles, str) else roles
    elif "role" in claims:
        if "roles" in claims:
            raise _Malformed("both role and roles are given")
        roles = [claims["role"]]
    try:
        return msgspec.convert(roles, list[str])
    except msgspec.ValidationError as error:
        raise _Malformed("roles must be strings") from error


def _at(claims: dict[str, Any], claim: str) -> Any:  # noqa: ANN401 - of JSON
    """Return a claim by name, which may contain dots, or by path; [] if it does not exist."""
    if claim in claims:
        return claims[claim]
    found: Any = claims
    for name in claim.split("."):
        found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
    return [] if found is None else found


def _permissions_of(roles: list[str], prefix: str) -> frozenset[Permission]:
    """Return the permissions of roles with the prefix. Others belong to other applications."""
    ours = [role.removeprefix(prefix) for role in roles if role.startswith(prefix)]
    return frozenset(each for role in ours for each in ROLES.get(role, frozenset()))


def shares_roles(settings: Settings) -> bool:
    """Whether a role of another application, such as admin, is also valid here."""
    is_default = settings.jwt_roles_claim is None and not settings.jwt_roles_prefix
    return "jwt" in settings.auth_kinds and is_default


def _scopes_of(claims: dict[str, Any]) -> tuple[Scope, ...] | None:
    """Return the scopes; None, which means every queue, only without a ``scopes`` claim."""
    if "scopes" not in claims:
        return None
    try:
        scopes = msgspec.convert(claims["scopes"], list[Scope])
    except msgspec.ValidationError as error:
        raise _Malformed("scopes") from error
    if len(scopes) > _MOST_SCOPES:
        raise _Malformed("too many scopes")
    return tuple(scopes)
