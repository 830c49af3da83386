"""Errors as problem documents (RFC 9457), with additional members."""

import msgspec

from queen.wire.messages import Wire


class Detail(Wire, frozen=True, kw_only=True):
    """One error in a request, with a JSON pointer."""

    pointer: str
    detail: str


class Problem(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """An error. ``applied``: false if the request was not applied, null if that is unknown."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    error: str
    """A copy of ``detail``, for clients of the original Queen."""
    applied: bool | None
    request_id: str | None = None
    errors: list[Detail] | msgspec.UnsetType = msgspec.UNSET
    settled: bool | msgspec.UnsetType = msgspec.UNSET
    """The group has already acknowledged the message of the lost lease."""
    failed_index: int | msgspec.UnsetType = msgspec.UNSET
    """The index of the rejected operation in a transaction."""
    messages: list[msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET
    """The results of a push that stored no message."""
