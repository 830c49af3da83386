"""Decode JSON in one step, with one cached decoder per type."""

from typing import Any, Final

import msgspec

from queen import errors
from queen.server.decoding.violations import refused

Text = bytes | msgspec.Raw
"""JSON. Raw parts are views of the body, so no level copies it."""
_DECODERS: Final[dict[Any, "msgspec.json.Decoder[Any]"]] = {}


def decode(raw: Text, hint: Any, where: str = "") -> Any:  # noqa: ANN401 - whatever the hint is
    """Decode in one step. Raises BadRequest with a pointer that starts with ``where``."""
    decoder = _DECODERS.get(hint)
    if decoder is None:
        decoder = _DECODERS[hint] = msgspec.json.Decoder(hint)
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise refused(error, where) from error
    except msgspec.DecodeError as error:
        raise errors.BadRequest(f"the body is not JSON in UTF-8: {error}") from error
    except RecursionError as error:
        raise errors.BadRequest("the body is nested too deeply") from error
