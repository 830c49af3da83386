"""Encryption and decryption of a partition's messages."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from queen.codec.encryption.keys import DataKey, is_sealed, key_id_of
from queen.codec.extras import Extra, decode_extra, encode_extra
from queen.codec.segment import Segment, encode, encode_extras

_HEADERS: Final = b'"headers"'


class Sealed(NamedTuple):
    """Messages of one partition in their stored form."""

    payloads: list[bytes]
    extras: list[bytes | None]


def seal_segment(
    key: DataKey,
    partition_id: int,
    payloads: Sequence[bytes],
    ends: bytes,
    extras: bytes | None,
) -> tuple[bytes, bytes, bytes | None]:
    """Encrypt a segment with these payloads and ends. Returns body, ends and extras."""
    if extras is None or _HEADERS not in extras:
        return *key.seal_segment(partition_id, payloads, ends), extras
    opened = Segment(xid=0, count=len(payloads), body=b"", ends=b"", extras=extras)
    sealed = seal(key, partition_id, payloads, opened.extras(0, len(payloads)))
    return *encode(sealed.payloads), encode_extras(sealed.extras)


def seal(
    key: DataKey,
    partition_id: int,
    payloads: Sequence[bytes],
    extras: Sequence[bytes | None],
) -> Sealed:
    """
    Encrypt payloads and headers.

    The transactionId and traceId stay readable, so that searches find them. Redaction also keeps
    them.
    """
    if not any(extra and _HEADERS in extra for extra in extras):
        return Sealed(key.seal(partition_id, payloads), list(extras))
    sealed: list[bytes] = []
    kept: list[bytes | None] = []
    for payload, extra in zip(payloads, extras, strict=True):
        said = decode_extra(extra) if extra else None
        if extra is None or said is None or said.headers is None:
            sealed += key.seal(partition_id, [payload])
            kept.append(extra)
            continue
        sealed.append(key.seal_with_extra(partition_id, payload, extra))
        rest = encode_extra(Extra(transaction_id=said.transaction_id, trace_id=said.trace_id))
        kept.append(None if rest == b"{}" else rest)
    return Sealed(sealed, kept)


def key_ids_of(segment: Segment) -> set[int]:
    """The data keys that are needed to read a segment."""
    stored = segment.payloads(0, segment.count)
    return {key_id_of(each) for each in stored if is_sealed(each)}


def open_segment(keys: Mapping[int, DataKey], partition_id: int, segment: Segment) -> Segment:
    """Decrypt a segment with all ``keys`` that it needs. Raises EncryptionUnavailable."""
    stored = segment.payloads(0, segment.count)
    extras = segment.extras(0, segment.count)
    (key, *others) = keys.values()
    if not others and all(each.startswith(key.head) for each in stored):
        payloads = key.open_all(partition_id, stored)
    else:
        payloads: list[bytes] = []
        for at, each in enumerate(stored):
            payload, extra = each, None
            if is_sealed(each):
                payload, extra = keys[key_id_of(each)].open(partition_id, each)
            payloads.append(payload)
            extras[at] = extra or extras[at]
    body, ends = encode(payloads)
    return Segment(
        xid=segment.xid,
        count=segment.count,
        body=body,
        ends=ends,
        extras=encode_extras(extras),
    )
