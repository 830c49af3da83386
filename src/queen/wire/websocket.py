"""WebSocket frames (RFC 6455) without extensions, for both ends of a stream."""

import hashlib
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

_DATA: Final = frozenset({CONTINUATION, TEXT, BINARY})
_CONTROL: Final = frozenset({CLOSE, PING, PONG})
_SHORT_BYTES: Final = 125
_TWO_BYTES: Final = 126
_EIGHT_BYTES: Final = 127
_PART_BYTES: Final = 64
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

PROTOCOL_ERROR: Final = 1002
TOO_BIG: Final = 1009


class FrameError(Exception):
    """The other side violated the protocol. `code` is for the close frame."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Receiver:
    """
    Parses the bytes of one direction into messages and control frames.

    Usage::

        receiver = Receiver(max_bytes=2**20)
        for opcode, payload in receiver.feed(data):
            …
    """

    __slots__ = ("_chunks", "_max_bytes", "_missing", "_parts", "_parts_bytes", "_unmask")

    def __init__(
        self, max_bytes: int, unmask: "Callable[[bytes, bytes], bytes] | None" = None
    ) -> None:
        """``unmask``: decodes the frames of a client; None for those of a server."""
        self._max_bytes = max_bytes
        self._unmask = unmask
        self._chunks: list[bytes] = []
        """Bytes of an incomplete frame."""
        self._missing = 0
        """How many bytes this frame lacks, as far as known."""
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        """The parts of a fragmented message, and their size."""

    @property
    def is_partial(self) -> bool:
        """Whether a message has begun and is not complete."""
        return bool(self._missing or self._parts)

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the messages that these bytes complete, as opcode and payload."""
        if self._missing:
            self._chunks.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data = b"".join(self._chunks)
            self._chunks.clear()
            self._missing = 0
        found: list[tuple[int, bytes]] = []
        at = 0
        while at < len(data):
            end = self._frame(data, at, found)
            if end > len(data):
                self._chunks.append(data[at:] if at else data)
                self._missing = end - len(data)
                break
            at = end
        return found

    def _frame(self, data: bytes, at: int, found: list[tuple[int, bytes]]) -> int:
        """Read a frame; returns its end, or the next end that is known if bytes are missing."""
        start = at + 2
        if len(data) < start:
            return start
        first, second = data[at], data[at + 1]
        size = second & 0x7F
        if size == _TWO_BYTES:
            start += 2
            if len(data) < start:
                return start
            size = int.from_bytes(data[start - 2 : start])
        elif size == _EIGHT_BYTES:
            start += 8
            if len(data) < start:
                return start
            size = int.from_bytes(data[start - 8 : start])
        opcode = first & 0x0F
        self._check(first, opcode, second >> 7, size)
        mask = b""
        if self._unmask is not None:
            start += 4
            if len(data) < start:
                return start
            mask = data[start - 4 : start]
        end = start + size
        if len(data) < end:
            return end
        payload = data[start:end]
        if self._unmask is not None:
            payload = self._unmask(payload, mask)
        if opcode in _CONTROL or (first & 0x80 and opcode != CONTINUATION):
            found.append((opcode, payload))
        else:
            self._join(payload, is_last=bool(first & 0x80), found=found)
        return end

    def _check(self, first: int, opcode: int, is_masked: int, size: int) -> None:
        if first & 0x70:
            raise FrameError(PROTOCOL_ERROR, "reserved bits are set")
        if bool(is_masked) != (self._unmask is not None):
            raise FrameError(PROTOCOL_ERROR, "only clients mask their frames")
        if opcode in _CONTROL:
            if size > _SHORT_BYTES or not first & 0x80:
                raise FrameError(PROTOCOL_ERROR, "a control frame is too long or fragmented")
            return
        if opcode not in _DATA:
            raise FrameError(PROTOCOL_ERROR, "unknown opcode")
        if (opcode == CONTINUATION) != bool(self._parts):
            raise FrameError(PROTOCOL_ERROR, "unexpected part of a message")
        if self._parts_bytes + size > self._max_bytes:
            raise FrameError(TOO_BIG, f"a message has more than {self._max_bytes} bytes")

    def _join(self, payload: bytes, *, is_last: bool, found: list[tuple[int, bytes]]) -> None:
        self._parts.append(payload)
        # An empty part also counts, so that a message has a bounded number of parts.
        self._parts_bytes += len(payload) + _PART_BYTES
        if is_last:
            found.append((TEXT, b"".join(self._parts)))
            self._parts.clear()
            self._parts_bytes = 0


def head(opcode: int, size: int, mask: bytes = b"") -> bytes:
    """Return the header of an unfragmented frame."""
    masked = 0x80 if mask else 0
    if size <= _SHORT_BYTES:
        return bytes((0x80 | opcode, masked | size)) + mask
    if size < 2**16:
        return bytes((0x80 | opcode, masked | _TWO_BYTES)) + size.to_bytes(2) + mask
    return bytes((0x80 | opcode, masked | _EIGHT_BYTES)) + size.to_bytes(8) + mask


def masked_frame(opcode: int, payload: bytes) -> bytes:
    """Return a frame of a client."""
    mask = secrets.token_bytes(4)
    return head(opcode, len(payload), mask) + apply_mask(payload, mask)


def apply_mask(payload: bytes, mask: bytes) -> bytes:
    """Mask or unmask a payload."""
    size = len(payload)
    pattern = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(pattern, "little")).to_bytes(
        size, "little"
    )


def close_payload(code: int, reason: str) -> bytes:
    """Return the payload of a close frame. Long reasons are cut."""
    return code.to_bytes(2) + reason.encode()[: _SHORT_BYTES - 2].decode(errors="ignore").encode()


def code_of(payload: bytes) -> int | None:
    """Return the code of a close frame; None if it has none."""
    return int.from_bytes(payload[:2]) if len(payload) >= 2 else None


def accept_of(key: str) -> str | None:
    """Return the ``Sec-WebSocket-Accept`` of a client's key; None if the key is invalid."""
    try:
        if len(b64decode(key, validate=True)) != 16:
            return None
    except ValueError:
        return None
    return b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()
