"""Errors as problem documents (RFC 9457), with additional members."""

import msgspec

from queen.wire.messages import Wire


class Detail(Wire, frozen=True, kw_only=True):
    """One error in a request, with a JSON pointer."""

    pointer: str
    """JSON pointer to the invalid field or parameter, for example `/items/3/queue`."""
    detail: str
    """Explanation of the error."""


class Problem(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """An error as a problem document (RFC 9457)."""

    type: str
    """URN of the error code, for example `urn:queen:lease_lost`."""
    title: str
    """Error code in words, for example `Lease lost`."""
    status: int
    """HTTP status of the response."""
    code: str
    """Error code, for example `lease_lost`. Handle errors by this field."""
    detail: str
    """Explanation of the error, for people."""
    error: str
    """Copy of `detail`, for clients of the original Queen."""
    applied: bool | None
    """False if the request had no effect, so you can repeat it. Null if its outcome is unknown."""
    request_id: str | None = None
    """Id of the request, as in the server's log."""
    errors: list[Detail] | msgspec.UnsetType = msgspec.UNSET
    """Invalid fields of the request, if it is malformed; otherwise omitted."""
    settled: bool | msgspec.UnsetType = msgspec.UNSET
    """True if the group has already acknowledged the message of a lost lease; otherwise omitted."""
    failed_index: int | msgspec.UnsetType = msgspec.UNSET
    """Index of the rejected operation in a transaction; omitted if no single operation is the
    cause."""
    messages: list[msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET
    """Results of all items, if a push was rejected completely; otherwise omitted."""
