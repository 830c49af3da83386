"""How a refusal is told: RFC 9457, with our own members."""

import msgspec

from queen.wire.messages import Wire


class Detail(Wire, frozen=True, kw_only=True):
    """One thing that is wrong with a request, and where."""

    pointer: str
    detail: str


class Problem(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong. ``applied`` false: nothing was applied; null: perhaps."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    error: str
    """The detail again, where clients of the seed look for it."""
    applied: bool | None
    request_id: str | None = None
    errors: list[Detail] | msgspec.UnsetType = msgspec.UNSET
    settled: bool | msgspec.UnsetType = msgspec.UNSET
    """The group is done with the message whose lease is lost."""
    failed_index: int | msgspec.UnsetType = msgspec.UNSET
    """Which operation of a transaction was refused."""
    messages: list[msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET
    """The answers to a push of which nothing was stored."""
