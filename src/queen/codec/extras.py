"""Optional fields of messages, stored beside the payloads as JSON."""

from typing import Final

import msgspec


class Extra(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The optional fields of one message."""

    transaction_id: str | None = None
    trace_id: str | None = None
    headers: dict[str, str] | None = None


NO_EXTRA: Final = Extra()
decode_extra: Final = msgspec.json.Decoder(Extra).decode
encode_extra: Final = msgspec.json.Encoder().encode
