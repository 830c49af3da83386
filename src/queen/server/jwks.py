"""Public keys that tokens are checked with: from a setting, or from the issuer over https."""

import asyncio
import contextlib
import http.client
import ssl
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWK, PyJWTError

from queen import errors

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

_MOST_BYTES: Final = 2**18
_MOST_KEYS: Final = 100
_MOST_ID_LETTERS: Final = 255
_FETCH_SECONDS: Final = 5.0
_FRESH_SECONDS: Final = 300.0
_REFETCH_SECONDS: Final = 30.0
"""However many tokens name keys that are not known, the issuer is asked no more often."""
_STALE_SECONDS: Final = 3_600.0
"""How long keys are believed when the issuer does not answer."""


def algorithm_of(key: object) -> str | None:
    """The one algorithm that a key is for; None for keys that are too weak or of another kind."""
    if isinstance(key, RSAPublicKey):
        return "RS256" if key.key_size >= 2048 else None
    if isinstance(key, EllipticCurvePublicKey):
        return "ES256" if isinstance(key.curve, SECP256R1) else None
    return "EdDSA" if isinstance(key, Ed25519PublicKey) else None


def key_of_setting(text: str) -> PublicKey:
    """A public key in PEM, or the file that has it."""
    try:
        pem = text.encode() if "-----BEGIN" in text else Path(text).read_bytes()
        key = load_pem_public_key(pem)
    except (OSError, ValueError) as error:
        raise errors.BadSettings("JWT_PUBLIC_KEY is no public key in PEM, nor a file") from error
    if not isinstance(key, RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey):
        raise errors.BadSettings("JWT_PUBLIC_KEY is neither RSA, nor P-256, nor Ed25519")
    return key


class Jwks:
    """The keys of one issuer, by id; the address comes from a setting, never from a token."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or parts.username:
            raise errors.BadSettings("JWT_JWKS_URL must begin with https:// and a host")
        self._host = parts.hostname
        self._port = parts.port or 443
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._keys: dict[str, PublicKey] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def key(self, key_id: object) -> PublicKey:
        """The key of this id; raises Unauthorized when the issuer has none."""
        if not isinstance(key_id, str) or not 0 < len(key_id) <= _MOST_ID_LETTERS:
            raise errors.Unauthorized("the token does not say which key signed it")
        now = time.monotonic()
        age = None if self._fetched_at is None else now - self._fetched_at
        found = self._keys.get(key_id)
        is_due = self._tried_at is None or now - self._tried_at > _REFETCH_SECONDS
        if found is None or age is None or age > _STALE_SECONDS:
            if is_due or self._task is not None:
                await self._refresh()
                found = self._keys.get(key_id)
        elif age > _FRESH_SECONDS and is_due:
            self._begin()  # Those that are known are good enough meanwhile.
        if self._fetched_at is None or time.monotonic() - self._fetched_at > _STALE_SECONDS:
            raise errors.Overloaded("the keys of the issuer of tokens cannot be read")
        if found is None:
            raise errors.Unauthorized("the token is signed by a key that is not known")
        return found

    async def _refresh(self) -> None:
        await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[None]:
        if self._task is None:
            self._tried_at = time.monotonic()
            self._task = asyncio.create_task(self._fetch())
        return self._task

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(_FETCH_SECONDS * 2):
                text = await asyncio.to_thread(self._read)
            self._keys = keys_of(text)
            self._fetched_at = time.monotonic()
        except (OSError, http.client.HTTPException, ValueError, msgspec.MsgspecError):
            pass  # Told by whoever finds no key.
        finally:
            self._task = None

    def _read(self) -> bytes:
        """One GET, to the host of the setting: a redirect is a failure like any other."""
        connection = http.client.HTTPSConnection(
            self._host,
            self._port,
            timeout=_FETCH_SECONDS,
            context=ssl.create_default_context(),
        )
        try:
            connection.request("GET", self._path, headers={"Accept": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise ValueError(f"the issuer answered {answer.status}")
            text = answer.read(_MOST_BYTES + 1)
        finally:
            connection.close()
        if len(text) > _MOST_BYTES:
            raise ValueError("the issuer has too many keys")
        return text


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


def keys_of(text: bytes) -> dict[str, PublicKey]:
    """Public keys for signatures by id; secret ones, and those without id, are passed over."""
    keys: dict[str, PublicKey] = {}
    for each in msgspec.json.decode(text, type=_KeySet).keys[:_MOST_KEYS]:
        key_id: Any = each.get("kid")
        if not isinstance(key_id, str) or each.get("use", "sig") != "sig":
            continue
        with contextlib.suppress(PyJWTError, ValueError, TypeError, KeyError):
            key: Any = PyJWK(each).key
            if isinstance(key, RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey):
                keys[key_id] = key
    return keys
