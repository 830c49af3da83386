"""Recognise requests whose head equals that of an earlier request."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from queen.bounded import BoundedDict
from queen.server.http.call import Call, Route
from queen.server.http.head import Head

_MOST_HEADS: Final = 4_096
_MOST_BYTES: Final = 4_096
"""Longest head that is remembered."""
_MOST_DIGITS: Final = 9
_MOST_AWAITED_BYTES: Final = 2**14
"""Largest body that may follow its head in later chunks."""
_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"ength: "
"""The end of ``content-length``, whose words may begin with a capital."""
_FRAMING: Final = (
    b"transfer-encoding",
    b"content-encoding",
    b"expect",
    b"upgrade",
    b"te",
    b"trailer",
    b"proxy-connection",
)
"""Requests with one of these headers always take the general way."""
_VOLATILE: Final = (b"x-request-id", b"traceparent", b"tracestate", b"cookie")
"""These differ from request to request, so their heads would never be recognised."""


class KnownHead(NamedTuple):
    """The meaning of a head."""

    head: Head
    route: Route
    parameters: Mapping[str, str]
    authorization: slice | None
    """Where the head has its credentials. They are not stored, and are verified every time."""
    has_body: bool
    """Whether the first request with this head had a body, so that its media type was checked.
    False for routes that accept no body."""


Recognised = tuple[KnownHead, bytes, str | None]
"""A whole request with a known head: its body, and its Authorization header."""


class KnownHeads:
    """
    The heads of successful requests, by their hash.

    httptools has parsed a request with the same bytes, except for the digits of content-length.
    So this needs no parser of its own, which could disagree with httptools about where a request
    ends: it only compares bytes and checks that exactly one whole request arrived.
    """

    def __init__(self, most_body_bytes: int) -> None:
        self._most_body_bytes = most_body_bytes
        self._known = BoundedDict[bytes, KnownHead](_MOST_HEADS)

    def __len__(self) -> int:
        return len(self._known)

    def recognise(self, data: bytes) -> Recognised | None:
        """Return the only request in these bytes; None: it takes the general way."""
        end = data.find(_END) + len(_END)
        parts = _without_length(data, end)
        if parts is None or parts[1] != len(data) - end:
            return None
        known = self._find(*parts)
        if known is None:
            return None
        place = known.authorization
        return known, data[end:], None if place is None else parts[0][place].decode("latin-1")

    def is_start(self, data: bytes) -> bool:
        """Whether these bytes are a known head, of whose body a small part is still missing."""
        end = data.find(_END) + len(_END)
        parts = _without_length(data, end)
        if parts is None or not len(data) - end < parts[1] <= _MOST_AWAITED_BYTES:
            return False
        return self._find(*parts) is not None

    def _find(self, head: bytes, body_bytes: int) -> KnownHead | None:
        """Return a head, if its requests may have a body of this size."""
        known = self._known.get(blake2b(head, digest_size=32).digest())
        if known is None or not body_bytes:
            return known
        return known if known.has_body and body_bytes <= self._most_body_bytes else None

    def learn(self, raw_head: bytes, call: Call) -> None:
        """Remember the head of a request that was served successfully."""
        route, headers = call.route, call.head.headers
        if route is None or route.span is None or call.span is not None:
            return
        if "leaseId" in call.parameters:
            return  # It is used a few times only.
        parts = _without_length(raw_head, len(raw_head))
        if parts is None or not _is_plain(raw_head, headers):
            return
        head, body_bytes = parts
        place: slice | None = None
        if (secret := headers.get(b"authorization")) is not None:
            at = head.find(secret)
            if at < 0:
                return
            place = slice(at, at + len(secret))
        call.head.headers = {
            name: value
            for name, value in headers.items()
            if name not in (b"authorization", b"content-length")
        }
        has_body = body_bytes > 0 and route.body is not None
        # Not the head itself, so that no credentials stay in memory.
        digest = blake2b(head, digest_size=32).digest()
        self._known[digest] = KnownHead(call.head, route, call.parameters, place, has_body)


def whole_head(data: bytes, body_bytes: int) -> bytes | None:
    """Return the head of a request that was parsed from these bytes, if they hold nothing else."""
    end = data.find(_END) + len(_END)
    return data[:end] if len(_END) <= end == len(data) - body_bytes else None


def _without_length(data: bytes, end: int) -> tuple[bytes, int] | None:
    """Return the head, which ends at ``end``, without the digits of content-length, and these."""
    if not 4 <= end <= _MOST_BYTES:
        return None
    at = data.find(_LENGTH, 0, end) + 7
    if at < 7:
        return data[:end], 0
    stop = data.find(b"\r\n", at)
    digits = data[at:stop]
    if not digits.isdigit() or len(digits) > _MOST_DIGITS:
        return None
    return data[:at] + data[stop:end], int(digits)


def _is_plain(raw_head: bytes, headers: Mapping[bytes, bytes]) -> bool:
    """Whether the length of a body is all that may differ between requests with this head."""
    if any(name in headers for name in (*_FRAMING, *_VOLATILE)):
        return False
    if headers.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return False
    if not raw_head.partition(b"\r\n")[0].endswith(b" HTTP/1.1"):
        return False
    # Its value, and not a part of another header.
    at = raw_head.find(_LENGTH)
    lowered = raw_head.lower()
    count = lowered.count(b"\r\ncontent-length")
    if b"content-length" not in headers:
        return at < 0 and count == 0
    return count == 1 and lowered.startswith(b"\r\ncontent-length: ", at - 11)
