"""Encode and decode payloads: plain values, structs, dataclasses, pydantic models."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from queen import errors

T = TypeVar("T")

_ENCODE: Final = msgspec.json.Encoder(enc_hook=lambda value: _plain(value)).encode


class Codec(Generic[T]):
    """Payloads of one type."""

    def __init__(self, type_: type[T] | None) -> None:
        self._decode: Callable[[bytes | msgspec.Raw], Any]
        if type_ is None:
            self._decode = msgspec.json.Decoder().decode
        elif hasattr(type_, "model_validate_json"):
            validate = getattr(type_, "model_validate_json")  # noqa: B009 - pydantic's
            self._decode = lambda payload: validate(bytes(payload))
        else:
            self._decode = msgspec.json.Decoder(type_).decode

    def decode(self, payload: bytes | msgspec.Raw) -> T:
        """Decode a payload; raises UndecodablePayload with a pointer to the error."""
        try:
            return self._decode(payload)
        except msgspec.DecodeError as error:
            raise errors.UndecodablePayload(_placed(str(error))) from error
        except ValueError as error:  # Pydantic's ValidationError is one.
            raise errors.UndecodablePayload(_describe(error)) from error


def _placed(text: str) -> str:
    """Add a pointer to an error of msgspec that concerns the whole payload."""
    return text if " - at `$" in text else f"{text} - at `$`"


def _describe(error: ValueError) -> str:
    """Format pydantic's first error like msgspec: the problem and its JSON path."""
    listed: list[dict[str, Any]] = getattr(error, "errors", list[dict[str, Any]])()
    if not listed:
        return _placed(str(error))
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in listed[0]["loc"])
    return f"{listed[0]['msg']} - at `${''.join(steps)}`"


def encode(value: Any) -> msgspec.Raw:  # noqa: ANN401 - whatever JSON can hold
    """Encode a value as JSON."""
    try:
        return msgspec.Raw(_ENCODE(value))
    except (TypeError, ValueError, msgspec.EncodeError) as error:
        raise errors.InvalidItem(f"the payload cannot be encoded as JSON: {error}") from error


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever is not JSON by itself
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"objects of type {type(value).__name__} have no JSON form")
