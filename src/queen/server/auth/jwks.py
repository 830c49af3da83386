"""Public keys that verify tokens: from a setting, or from the issuer over https."""

import contextlib
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWK, PyJWTError

from queen import errors
from queen.server.auth.cached_document import CachedDocument

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

_MOST_KEYS: Final = 100
_MOST_ID_LETTERS: Final = 255
_STALE_SECONDS: Final = 3_600.0
"""How long keys are used if the issuer does not respond."""


def algorithm_of(key: object) -> str | None:
    """Return the algorithm of a key; None for weak keys and other kinds."""
    if isinstance(key, RSAPublicKey):
        return "RS256" if key.key_size >= 2048 else None
    if isinstance(key, EllipticCurvePublicKey):
        return "ES256" if isinstance(key.curve, SECP256R1) else None
    return "EdDSA" if isinstance(key, Ed25519PublicKey) else None


def key_of_setting(text: str) -> PublicKey:
    """Read a public key in PEM, or the file with it."""
    try:
        pem = text.encode() if "-----BEGIN" in text else Path(text).read_bytes()
        key = load_pem_public_key(pem)
    except (OSError, ValueError) as error:
        raise errors.BadSettings(
            "JWT_PUBLIC_KEY is neither a public key in PEM nor a file"
        ) from error
    if not isinstance(key, RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey):
        raise errors.BadSettings("JWT_PUBLIC_KEY must be an RSA, P-256 or Ed25519 key")
    return key


class Jwks:
    """The keys of one issuer, by id."""

    def __init__(self, url: str) -> None:
        self._keys = CachedDocument(url, keys_of, setting="JWT_JWKS_URL")

    async def close(self) -> None:
        await self._keys.close()

    async def key(self, key_id: object) -> PublicKey:
        """Return the key with this id; raises Unauthorized if the issuer does not have it."""
        if not isinstance(key_id, str) or not 0 < len(key_id) <= _MOST_ID_LETTERS:
            raise errors.Unauthorized("the token's header has no key id (kid)")
        found = (self._keys.value or {}).get(key_id)
        if found is None or self._keys.age > _STALE_SECONDS:
            await self._keys.fetch()
            found = (self._keys.value or {}).get(key_id)
        else:
            self._keys.refresh()
        if self._keys.age > _STALE_SECONDS:
            raise errors.Overloaded("the token issuer's keys cannot be read")
        if found is None:
            raise errors.Unauthorized("the token is signed with an unknown key")
        return found


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


def keys_of(text: bytes) -> dict[str, PublicKey]:
    """Decode public signature keys by id. Secret keys and keys without an id are skipped."""
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
