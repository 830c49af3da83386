"""Encrypt the segments that pipelines write to an encrypted queue."""

from typing import Any

from queen.arrow.database import Connection, call
from queen.codec.encryption import keys
from queen.codec.encryption.keyring import keyring_of_environment
from queen.codec.encryption.keys import DataKey, Keyring, Wrapped
from queen.codec.encryption.sealing import seal_segment
from queen.codec.segment import Segment


class SegmentSealer:
    """Encrypts segments of one queue with its data keys. Without encryption, changes nothing."""

    def __init__(self, connection: Connection, queue: dict[str, Any]) -> None:
        self._connection = connection
        self._queue = queue
        self._keyring: Keyring | None = None

    def key(self, uses: int) -> DataKey | None:
        """Return the data key to encrypt this many messages with, or None without encryption."""
        if not self._queue["encrypted"]:
            return None
        keyring = self._keyring = self._keyring or keyring_of_environment()
        master_id, queue_id = keyring.first, self._queue["id"]
        arguments = (queue_id, uses, keys.MAX_USES)
        (row,) = call(self._connection, "take_data_key", *arguments, None, None, None)
        if row["wrapped"] is None:
            made = keyring.wrap(DataKey.new(row["id"], queue_id))
            (row,) = call(
                self._connection, "take_data_key", *arguments, made.id, master_id, made.wrapped
            )
        return keyring.unwrap(Wrapped(row["id"], queue_id, row["master_id"], row["wrapped"]))

    def checksum_key(self) -> bytes | None:
        """Return a key for checksums of payloads, or None without encryption."""
        if not self._queue["encrypted"]:
            return None
        self._keyring = self._keyring or keyring_of_environment()
        return self._keyring.checksum_key(self._queue["id"])


def sealed(
    key: DataKey | None,
    partition_id: int,
    body: bytes | memoryview,
    ends: bytes,
    extras: bytes | None,
) -> tuple[bytes | memoryview, bytes, bytes | None]:
    """Return the body, ends and extras of a segment, encrypted if there is a key."""
    if key is None:
        return body, ends, extras
    count = len(ends) // 4 - 1
    plain = Segment(xid=0, count=count, body=bytes(body), ends=ends, extras=None)
    return seal_segment(key, partition_id, plain.payloads(0, count), ends, extras)
