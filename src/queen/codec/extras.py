"""What some messages have and most have not: stored beside the payloads as JSON."""

import msgspec


class Extra(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Of one message."""

    transaction_id: str | None = None
    trace_id: str | None = None
    headers: dict[str, str] | None = None
