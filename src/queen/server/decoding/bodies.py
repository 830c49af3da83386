"""
Decode large request bodies to structs, with bounded work and memory.

A body of 64 MiB can hold millions of items, and building all of them takes seconds and hundreds of
megabytes. A body with many values is therefore decoded level by level: lists and objects first stay
raw JSON, lists are counted while they are split, and only then items are built, in steps.
"""

import asyncio
import codecs
import functools
import re
import typing
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from queen import errors
from queen.engine.runtime.pace import Pace
from queen.server.decoding.decoder import Text, decode
from queen.server.decoding.raw_twins import (
    Field,
    alternatives,
    is_shallow,
    is_struct,
    tagged_type,
    twin_of,
)

DIRECT_BYTES: Final = 2**14
"""Up to this size, a body is too small to need limits."""
_DIRECT_VALUES: Final = 100_000
"""This many values are built in less than 100 ms, and take at most 20 MB."""
_ITEM_VALUES: Final = 64
"""Items with more values are decoded level by level too: most belong to the payload."""
_OBJECT_VALUES: Final = 200_000
"""Limit of an object without fields, such as headers or a schema. It is built in one step."""
_VALUE_BYTES: Final = 100
"""Estimated memory of a decoded value."""
_FLAT_VALUES: Final = 4
"""Values of an item with only names and a payload."""
_SEARCHED_VALUES: Final = 50_000
_SEARCHED_BYTES: Final = 2**23
_VALUES_PER_ITEM: Final = 100
_MOST_VALUES: Final = 16_000_000
"""msgspec skips this many in 0.1 s. A body with more is rejected unread."""
_STEP_BYTES: Final = 2**20
_MOST_FIELDS: Final = 20_000
_LETTER: Final = re.compile(rb"\\u00[4-7]")
"""An escaped letter, which could hide the name of a field from a search."""
_FIRST: Final = re.compile(rb"[ \t\r\n]*(.)", re.DOTALL)

Hold = Callable[[int], None]
"""Counts bytes of memory; raises TooManyBytes."""


class Bodies:
    """Decodes the large bodies of one process."""

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items

    async def decode(self, raw: bytes, type_: type[Any], hold: Hold) -> Any:  # noqa: ANN401 - of the type
        """Decode a body; raises RequestError or TooManyBytes."""
        await self.check(raw)
        decoding = _Decoding(self, self._max_items, hold)
        found = await decoding.build(raw, type_, "", _DIRECT_VALUES)
        for field in twin_of(type_).fields:
            # Lists that were built in one step have not been counted.
            value = getattr(found, field.name)
            if isinstance(value, list | tuple) and len(cast("list[Any]", value)) > self._max_items:
                raise self._too_many(f"/{field.wire_name}")
        return found

    async def check(self, raw: bytes) -> None:
        """Raise BodyTooLarge for too many values, and BadRequest unless this is UTF-8."""
        await _check_density(raw)
        await _check_text(raw)

    def split(self, raw: Text, where: str) -> list[msgspec.Raw]:
        """Split a list into its items; raises TooManyItems as soon as there are too many."""
        if self._max_items > _MOST_FIELDS:
            items = cast("list[msgspec.Raw]", decode(raw, list[msgspec.Raw], where))
            if len(items) > self._max_items:
                raise self._too_many(where)
            return items
        try:
            found = msgspec.structs.astuple(self._few.decode(raw))
        except msgspec.ValidationError as error:
            raise self._too_many(where) from error
        return [each for each in found if each is not msgspec.UNSET]

    @functools.cached_property
    def _few(self) -> "msgspec.json.Decoder[Any]":
        """Decode a list with a length limit. msgspec checks it early only for structs as arrays."""
        optional = msgspec.Raw | msgspec.UnsetType
        fields = [(f"_{n}", optional, msgspec.UNSET) for n in range(self._max_items)]
        few = msgspec.defstruct("Few", fields, array_like=True, forbid_unknown_fields=True)
        return msgspec.json.Decoder(few)

    def _too_many(self, where: str) -> errors.TooManyItems:
        return errors.TooManyItems(
            f"{where[1:]}: more than {self._max_items} items. Send them in several requests."
        )


class _Decoding:
    """One body."""

    def __init__(self, bodies: Bodies, max_items: int, hold: Hold) -> None:
        self._bodies = bodies
        self._hold = hold
        self._max_items = max_items
        self._most = self._left = max_items * _VALUES_PER_ITEM
        self._pace = Pace()

    async def build(self, raw: Text, hint: Any, where: str, most: int) -> Any:  # noqa: ANN401 - of the hint
        """Build a value of this type: in one step if it has few values, else level by level."""
        first = _FIRST.match(raw)
        kinds, is_plain = alternatives(hint)
        if msgspec.Raw in kinds or first is None or first[1] not in b"[{":
            return decode(raw, hint, where)
        values = await self._count(raw)
        if (
            values > _SEARCHED_VALUES
            and is_struct(hint)
            and (items := self._count_flat(raw, hint)) is not None
        ):
            values, most = _FLAT_VALUES * items, _DIRECT_VALUES
        if values > most and first[1] == b"{":
            if structs := [each for each in kinds if is_struct(each)]:
                return await self._struct(raw, structs, where)
            if values > _OBJECT_VALUES and not any(map(is_shallow, kinds)):
                raise errors.BadRequest(f"{where}: more than {_OBJECT_VALUES} values")
        if values > most and first[1] == b"[" and is_plain:
            lists = [each for each in kinds if typing.get_origin(each) in (list, tuple)]
            if lists:
                return await self._list(raw, lists[0], where)
        self._spend(values, where)
        return decode(raw, hint, where)

    def _count_flat(self, raw: Text, hint: type[Any]) -> int | None:
        """
        Return the largest number of items in a body, if all of them are flat; else None.

        Flat items contain no list or object except raw JSON. Their number is at most the number of
        occurrences of a required field.
        """
        if len(raw) > _SEARCHED_BYTES:
            return None
        text = bytes(raw)
        if b"\\u00" in text and _LETTER.search(text) is not None:
            return None
        counts = [_flat_items(text, each) for each in twin_of(hint).fields if each.is_container]
        known = [count for count in counts if count is not None]
        count = sum(known)
        return count if len(known) == len(counts) and count <= self._max_items else None

    def _spend(self, values: int, where: str) -> None:
        self._left -= values
        if self._left < 0:
            raise errors.BadRequest(f"{where or 'the body'}: more than {self._most} values")
        self._hold(values * _VALUE_BYTES)

    async def _count(self, raw: Text) -> int:
        """Count the values of this JSON by their commas, without the first one of each level."""
        if len(raw) <= _STEP_BYTES:
            return bytes(raw).count(b",")
        values = 0
        view = memoryview(raw)
        for start in range(0, len(raw), _STEP_BYTES):
            values += bytes(view[start : start + _STEP_BYTES]).count(b",")
            await self._pace.rest()
        return values

    async def _list(self, raw: Text, kind: Any, where: str) -> Any:  # noqa: ANN401 - a list or tuple
        hint = typing.get_args(kind)[0]
        items = self._bodies.split(raw, where)
        await self._pace.rest()
        built: list[Any] = []
        values = 0
        for index, item in enumerate(items):
            size = len(item)
            count = bytes(item).count(b",") if size <= _STEP_BYTES else _ITEM_VALUES + 1
            if count <= _ITEM_VALUES:
                values += count + 1
                built.append(decode(item, hint, f"{where}/{index}"))
            else:
                built.append(await self.build(item, hint, f"{where}/{index}", _ITEM_VALUES))
            if self._pace.is_due(size):
                self._spend(values, where)
                values = 0
                await self._pace.rest()
        self._spend(values, where)
        return built if typing.get_origin(kind) is list else tuple(built)

    async def _struct(self, raw: Text, types_: list[type[Any]], where: str) -> Any:  # noqa: ANN401 - one of the types
        twin = twin_of(tagged_type(raw, types_, where))
        found = decode(raw, twin.raw_struct, where)
        if self._pace.is_due(len(raw)):
            await self._pace.rest()
        values: dict[str, Any] = {}
        for field in twin.fields:
            value = getattr(found, field.name)
            if value is msgspec.UNSET:
                continue
            if field.is_container:
                pointer = f"{where}/{field.wire_name}"
                value = await self.build(value, field.hint, pointer, _DIRECT_VALUES)
            values[field.name] = value
        self._spend(len(values), where)
        try:
            return twin.struct(**values)
        except (TypeError, ValueError) as error:
            raise errors.BadRequest(f"{where or 'the body'}: {error}") from error


def _flat_items(text: bytes, field: Field) -> int | None:
    """Return the largest number of items in a list, if all of them are flat; else None."""
    if typing.get_origin(field.hint) is not list:
        return None
    (item,) = typing.get_args(field.hint)
    if not is_struct(item):
        return None
    fields = twin_of(item).fields
    required = [each.key for each in fields if each.is_required]
    if not required or any(each.is_container and each.key in text for each in fields):
        return None
    return text.count(required[0])


async def _check_density(raw: bytes) -> None:
    """Raise BodyTooLarge for too many values, which cost time even as raw JSON."""
    if len(raw) <= _MOST_VALUES:
        return
    values = 0
    view = memoryview(raw)
    for start in range(0, len(raw), _STEP_BYTES):
        step = bytes(view[start : start + _STEP_BYTES])
        values += step.count(b",") + step.count(b"[") + step.count(b"{")
        await asyncio.sleep(0)
    if values > _MOST_VALUES:
        raise errors.BodyTooLarge(
            f"The body holds more than {_MOST_VALUES} values. Send them in several requests."
        )


async def _check_text(raw: bytes) -> None:
    """Raise BadRequest unless this is UTF-8. Checks in steps."""
    if raw.isascii():
        return
    pace = Pace()
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(raw), _STEP_BYTES):
            decoder.decode(raw[start : start + _STEP_BYTES])
            await pace.rest()
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise errors.BadRequest(f"the body is not JSON in UTF-8: {error}") from error
