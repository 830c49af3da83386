"""Validation of payloads against the JSON Schema of their queue."""

from typing import Any

import jsonschema_rs
import msgspec

from queen import errors


class PayloadSchema:
    """A compiled schema."""

    def __init__(self, schema: dict[str, Any] | bool) -> None:
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                schema,
                retriever=_refuse,
                # Patterns must run in linear time, because users write the schemas.
                pattern_options=jsonschema_rs.RegexOptions(),
                mask="the value",
            )
        except (jsonschema_rs.ValidationError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise errors.InvalidOption(f"schema: {reason}") from error

    def check(self, payload: bytes) -> None:
        """Raise SchemaViolation, with the position, if the payload does not match the schema."""
        try:
            self._validator.validate(msgspec.json.decode(payload))
        except jsonschema_rs.ValidationError as error:
            where = "".join(f"/{step}" for step in error.instance_path)
            raise errors.SchemaViolation(f"{where or 'the payload'}: {error.message}") from error
        except msgspec.DecodeError as error:
            raise errors.InvalidItem(f"the payload is not JSON: {error}") from error


def _refuse(uri: str) -> Any:  # noqa: ANN401 - what the library expects
    raise ValueError(f"a schema cannot refer to another document ({uri})")
