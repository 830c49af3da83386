"""
Encryption of payloads with AES-256-GCM, and the keys for it.

An encrypted payload has a mark, a kind, the key id (4 bytes), a nonce (12), the ciphertext and a
tag (16). The mark is a byte that JSON never contains, so it marks encrypted payloads. The tag also
authenticates, each with its length: the purpose, mark and kind, a reserved field, queue id,
partition id and key id. The offset is not authenticated, because the database assigns it after
encryption.
"""

import hmac
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from queen import errors
from queen.codec.segment import Buffer, ends_with_more

MARK: Final = b"\x01"
OVERHEAD_BYTES: Final = 34
MAX_USES: Final = 2**31
"""Uses of one data key. Random nonces of 12 bytes allow 2^32."""
_PAYLOAD: Final = MARK + b"\x00"
_PAYLOAD_AND_EXTRA: Final = MARK + b"\x01"
_RESERVED: Final = 0
"""A field of the authenticated data. It stays 0, so that stored payloads can be decrypted."""
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_HEAD_BYTES: Final = 6
_SIZE: Final = struct.Struct("<I")
_NONCES: Final = struct.Struct(f"{_NONCE_BYTES}s" * 16)
_MASTER_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_HEX: Final = re.compile(r"[0-9A-Fa-f]{64}", re.ASCII)


def is_sealed(payload: bytes) -> bool:
    """Return whether a stored payload is encrypted."""
    return payload[:1] == MARK


def holds_sealed(body: bytes) -> bool:
    """Return whether a segment may contain encrypted payloads. False is certain."""
    return MARK in body


def key_id_of(sealed: bytes) -> int:
    """The data key that encrypted a payload."""
    return int.from_bytes(sealed[2:_HEAD_BYTES])


class DataKey:
    """The encryption key of one queue, for one day or `MAX_USES` uses."""

    __slots__ = ("_cipher", "id", "queue_id", "secret")

    def __init__(self, id_: int, queue_id: int, secret: bytes) -> None:
        self.id = id_
        self.queue_id = queue_id
        self.secret = secret
        self._cipher = AESGCM(secret)

    @classmethod
    def new(cls, id_: int, queue_id: int) -> "DataKey":
        return cls(id_, queue_id, os.urandom(_KEY_BYTES))

    def seal(self, partition_id: int, payloads: Sequence[Buffer]) -> list[bytes]:
        """Encrypt payloads of one partition, each with its own nonce."""
        head = self.head
        bound = self._bound(_PAYLOAD, partition_id)
        encrypt = self._cipher.encrypt
        return [
            b"%b%b%b" % (head, nonce, encrypt(nonce, payload, bound))
            for nonce, payload in zip(_nonces(len(payloads)), payloads, strict=True)
        ]

    def seal_segment(
        self, partition_id: int, payloads: Sequence[Buffer], ends: bytes
    ) -> tuple[bytes, bytes]:
        """Encrypt payloads with these ends. Returns body and ends of their segment."""
        nonces = _nonces(len(payloads))
        bound = self._bound(_PAYLOAD, partition_id)
        parts = [self.head] * (3 * len(payloads))
        parts[1::3] = nonces
        parts[2::3] = map(self._cipher.encrypt, nonces, payloads, repeat(bound))
        return b"".join(parts), ends_with_more(ends, OVERHEAD_BYTES)

    def seal_with_extra(self, partition_id: int, payload: Buffer, extra: bytes) -> bytes:
        """Encrypt a payload and the optional fields of its message in one ciphertext."""
        (nonce,) = _nonces(1)
        bound = self._bound(_PAYLOAD_AND_EXTRA, partition_id)
        inner = b"".join((_SIZE.pack(len(extra)), extra, payload))
        head = _PAYLOAD_AND_EXTRA + self.id.to_bytes(4)
        return head + nonce + self._cipher.encrypt(nonce, inner, bound)

    def open(self, partition_id: int, sealed: bytes) -> tuple[bytes, bytes | None]:
        """Decrypt the payload, and the extra if there is one. Raises EncryptionUnavailable."""
        kind = sealed[:2]
        if kind not in (_PAYLOAD, _PAYLOAD_AND_EXTRA) or len(sealed) < OVERHEAD_BYTES:
            raise errors.EncryptionUnavailable("a payload has an unknown encryption format")
        try:
            inner = self._cipher.decrypt(
                sealed[_HEAD_BYTES : _HEAD_BYTES + _NONCE_BYTES],
                sealed[_HEAD_BYTES + _NONCE_BYTES :],
                self._bound(kind, partition_id),
            )
        except InvalidTag as error:
            raise _not_authentic(partition_id) from error
        if kind == _PAYLOAD:
            return inner, None
        (size,) = _SIZE.unpack_from(inner)
        return inner[4 + size :], inner[4 : 4 + size]

    def open_all(self, partition_id: int, sealed: Sequence[bytes]) -> list[bytes]:
        """Decrypt payloads that this key encrypted without extras, which is the common case."""
        bound = self._bound(_PAYLOAD, partition_id)
        decrypt = self._cipher.decrypt
        try:
            return [decrypt(each[6:18], each[18:], bound) for each in sealed]
        except (InvalidTag, ValueError) as error:
            raise _not_authentic(partition_id) from error

    def _bound(self, kind: bytes, partition_id: int) -> bytes:
        return _bound(b"message", kind, _RESERVED, self.queue_id, partition_id, self.id)

    @property
    def head(self) -> bytes:
        """The first bytes of payloads that this key encrypted without extras."""
        return _PAYLOAD + self.id.to_bytes(4)


class Wrapped(NamedTuple):
    """A data key as it is stored, encrypted by a master key."""

    id: int
    queue_id: int
    master_id: str
    wrapped: bytes


class Keyring:
    """Master keys by id. The first one encrypts, and all of them decrypt."""

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        self._ciphers = {id_: AESGCM(secret) for id_, secret in secrets.items()}
        self._secrets = secrets

    def __bool__(self) -> bool:
        return bool(self._ciphers)

    def __contains__(self, master_id: str) -> bool:
        return master_id in self._ciphers

    def __iter__(self) -> Iterator[str]:
        return iter(self._ciphers)

    @property
    def first(self) -> str:
        """The id of the key that encrypts. Raises EncryptionUnavailable if the keyring is empty."""
        for master_id in self._ciphers:
            return master_id
        raise errors.EncryptionUnavailable(
            "this server has no key to encrypt with: set QUEEN_ENCRYPTION_KEY"
        )

    def wrap(self, key: DataKey) -> Wrapped:
        """Encrypt a data key with the first master key."""
        master_id = self.first
        (nonce,) = _nonces(1)
        bound = _bound(b"data key", MARK, key.queue_id, key.id, master_id.encode())
        sealed = MARK + nonce + self._ciphers[master_id].encrypt(nonce, key.secret, bound)
        return Wrapped(key.id, key.queue_id, master_id, sealed)

    def checksum_key(self, queue_id: int) -> bytes:
        """Derive a key for checksums of payloads from the first master key."""
        bound = _bound(b"checksum", MARK, queue_id, 0, self.first.encode())
        return hmac.digest(self._secrets[self.first], bound, "sha256")

    def seal_record(self, text: bytes) -> bytes:
        """Encrypt a record of a file with the first master key, and prepend its id."""
        master_id = self.first.encode()
        (nonce,) = _nonces(1)
        bound = _bound(b"record", MARK, 0, 0, master_id)
        sealed = self._ciphers[self.first].encrypt(nonce, text, bound)
        return bytes([len(master_id)]) + master_id + nonce + sealed

    def open_record(self, sealed: bytes) -> bytes:
        """Decrypt a record. Raises EncryptionUnavailable without its master key."""
        end = 1 + sealed[0]
        master_id = sealed[1:end].decode("ascii", "replace")
        cipher = self._ciphers.get(master_id)
        if cipher is None:
            raise errors.EncryptionUnavailable(
                f"this server does not have the master key {master_id}"
            )
        bound = _bound(b"record", MARK, 0, 0, sealed[1:end])
        try:
            return cipher.decrypt(sealed[end : end + 12], sealed[end + 12 :], bound)
        except (InvalidTag, ValueError) as error:
            raise errors.EncryptionUnavailable(
                f"a record was not encrypted by this master key {master_id}"
            ) from error

    def unwrap(self, stored: Wrapped) -> DataKey:
        """Decrypt a data key. Raises EncryptionUnavailable without its master key."""
        cipher = self._ciphers.get(stored.master_id)
        if cipher is None:
            raise errors.EncryptionUnavailable(
                f"this server does not have the master key {stored.master_id}"
            )
        bound = _bound(b"data key", MARK, stored.queue_id, stored.id, stored.master_id.encode())
        try:
            secret = cipher.decrypt(stored.wrapped[1:13], stored.wrapped[13:], bound)
        except (InvalidTag, ValueError) as error:
            raise errors.EncryptionUnavailable(
                f"the data key {stored.id} was not encrypted by this master key {stored.master_id}"
            ) from error
        return DataKey(stored.id, stored.queue_id, secret)


def parse_keys(text: str, *, where: str) -> dict[str, bytes]:
    """Parse keys ``id:hex`` from commas or lines. Raises BadSettings without quoting a key."""
    found: dict[str, bytes] = {}
    for word in re.split(r"[,\n]", text):
        line = word.strip()
        if not line or line.startswith("#"):
            continue
        id_, _, secret = line.partition(":")
        if not _MASTER_ID.fullmatch(id_) or not _HEX.fullmatch(secret):
            raise errors.BadSettings(
                f"{where}: a key is an id (letters, digits, dots, dashes), a colon and"
                " 64 hexadecimal digits"
            )
        if id_ in found:
            raise errors.BadSettings(f"{where}: the key id {id_} occurs twice")
        found[id_] = bytes.fromhex(secret)
    return found


def _nonces(count: int) -> list[bytes]:
    """Generates a multiple of sixteen, because unpacking sixteen per call is faster."""
    drawn = os.urandom(-(-count // 16) * _NONCES.size)
    return list(islice(chain.from_iterable(_NONCES.iter_unpack(drawn)), count))


def _bound(*fields: bytes | int) -> bytes:
    """The data that a ciphertext is authenticated with: each field after its length."""
    parts: list[bytes] = []
    for field in fields:
        value = field.to_bytes(8) if isinstance(field, int) else field
        parts += (_SIZE.pack(len(value)), value)
    return b"".join(parts)


def _not_authentic(partition_id: int) -> errors.EncryptionUnavailable:
    return errors.EncryptionUnavailable(
        f"a payload of partition {partition_id} was changed, or encrypted for another one"
    )
