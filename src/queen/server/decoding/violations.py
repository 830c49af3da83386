"""Errors for requests with the wrong shape, with a JSON pointer."""

import re
from typing import Final

import msgspec

from queen import errors
from queen.wire.problems import Detail

_STEP: Final = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")
_FIELD: Final = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)


def refused(error: msgspec.ValidationError, where: str) -> errors.RequestError:
    """Convert an error of msgspec, with a JSON pointer."""
    what, _, path = str(error).partition(" - at `$")
    # `[...]` stands for an unknown key of an object.
    pointer = where + _STEP.sub(r"/\1\2", path.rstrip("`").replace("[...]", ""))
    if (named := _FIELD.fullmatch(what)) is not None:
        pointer += f"/{named[2]}"
        what = "required" if named[1] == "missing required" else "unknown"
    # Invalid options have their own error class.
    ours = errors.InvalidOption if pointer.startswith("/options/") else errors.BadRequest
    return ours(
        f"{pointer or 'the request'}: {what}", errors=[Detail(pointer=pointer, detail=what)]
    )
