"""
Large request bodies to structs, with bounded work and memory.

A body of 64 MiB can hold millions of items, and to build them all takes seconds and hundreds of
megabytes. So a body with many values is decoded level by level: its lists and objects stay raw
JSON at first, lists are counted while they are split, and only then items are built, in steps.
"""

import asyncio
import codecs
import functools
import re
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple, Union, cast

import msgspec

from queen import errors
from queen.engine.runtime.pace import Pace
from queen.server.decoding.violations import refused

DIRECT_BYTES: Final = 2**14
"""A body up to this size cannot hold enough values to matter."""
_DIRECT_VALUES: Final = 100_000
"""As many are built in less than 100 ms, and take 20 MB at most."""
_ITEM_VALUES: Final = 64
"""An item with more values is decoded level by level, too: most are of its payload, some not."""
_OBJECT_VALUES: Final = 200_000
"""An object whose members are no fields, such as headers or a schema, is built at once."""
_VALUE_BYTES: Final = 100
"""Memory that a value takes when it is built, estimated."""
_FLAT_VALUES: Final = 4
"""What an item with nothing but names and a payload takes."""
_SEARCHED_VALUES: Final = 50_000
_SEARCHED_BYTES: Final = 2**23
_VALUES_PER_ITEM: Final = 100
_MOST_VALUES: Final = 16_000_000
"""msgspec skips as many in 0.1 s; a body with more of them is not read at all."""
_STEP_BYTES: Final = 2**20
_MOST_FIELDS: Final = 20_000
_LETTER: Final = re.compile(rb"\\u00[4-7]")
"""A letter that is escaped, so that a search for the name of a field would miss it."""
_FIRST: Final = re.compile(rb"[ \t\r\n]*(.)", re.DOTALL)
_DECODERS: Final[dict[Any, "msgspec.json.Decoder[Any]"]] = {}

Text = bytes | msgspec.Raw
"""JSON; raw JSON is a view of the body, so no level copies it."""
Hold = Callable[[int], None]
"""Counts bytes of memory; raises TooManyBytes."""


def decode(raw: Text, hint: Any, where: str = "") -> Any:  # noqa: ANN401 - whatever the hint is
    """Decode at once. Raises BadRequest, with ``where`` before the pointer to what is wrong."""
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
        raise errors.BadRequest("the body is nested too deep") from error


class Bodies:
    """Decodes the large bodies of one process."""

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items
        self._twins: dict[type, _Twin] = {}
        self._few: msgspec.json.Decoder[Any] | None = None

    async def decode(self, raw: bytes, type_: type[Any], hold: Hold) -> Any:  # noqa: ANN401 - of the type
        """The body as this struct; raises RequestError or TooManyBytes."""
        await _check_density(raw)
        await _check_text(raw)
        decoding = _Decoding(self, self._max_items, hold)
        found = await decoding.build(raw, type_, "", _DIRECT_VALUES)
        for field in self.twin(type_).fields:
            # What was built at once has not been counted.
            value = getattr(found, field.name)
            if isinstance(value, list | tuple) and len(cast("list[Any]", value)) > self._max_items:
                raise self._too_many(f"/{field.wire_name}")
        return found

    def twin(self, type_: type[Any]) -> "_Twin":
        twin = self._twins.get(type_)
        if twin is None:
            twin = self._twins[type_] = _twin(type_)
        return twin

    def split(self, raw: Text, where: str) -> list[msgspec.Raw]:
        """The items of a list; raises TooManyItems without reading further than needed."""
        if self._max_items > _MOST_FIELDS:
            items = cast("list[msgspec.Raw]", decode(raw, list[msgspec.Raw], where))
            if len(items) > self._max_items:
                raise self._too_many(where)
            return items
        if self._few is None:
            # Only of structs in the form of arrays does msgspec check the length as it reads.
            optional = msgspec.Raw | msgspec.UnsetType
            fields = [(f"_{n}", optional, msgspec.UNSET) for n in range(self._max_items)]
            few = msgspec.defstruct("Few", fields, array_like=True, forbid_unknown_fields=True)
            self._few = msgspec.json.Decoder(few)
        try:
            found = msgspec.structs.astuple(self._few.decode(raw))
        except msgspec.ValidationError as error:
            raise self._too_many(where) from error
        return [each for each in found if each is not msgspec.UNSET]

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
        """What the hint says: at once if it has few values, else level by level."""
        first = _FIRST.match(raw)
        kinds, is_plain = _alternatives(hint)
        if msgspec.Raw in kinds or first is None or first[1] not in b"[{":
            return decode(raw, hint, where)
        values = await self._count(raw)
        if (
            values > _SEARCHED_VALUES
            and _is_struct(hint)
            and (items := self._count_flat(raw, hint)) is not None
        ):
            values, most = _FLAT_VALUES * items, _DIRECT_VALUES
        if values > most and first[1] == b"{":
            if structs := [each for each in kinds if _is_struct(each)]:
                return await self._struct(raw, structs, where)
            if values > _OBJECT_VALUES and not any(map(_is_shallow, kinds)):
                raise errors.BadRequest(f"{where}: more than {_OBJECT_VALUES} values")
        if values > most and first[1] == b"[" and is_plain:
            lists = [each for each in kinds if typing.get_origin(each) in (list, tuple)]
            if lists:
                return await self._list(raw, lists[0], where)
        self._spend(values, where)
        return decode(raw, hint, where)

    def _count_flat(self, raw: Text, hint: type[Any]) -> int | None:
        """
        How many items a body has at most, if a search shows that these are flat; else None.

        Flat items hold no list or object but raw JSON. There are no more of them than there are
        names of a field that each must have.
        """
        if len(raw) > _SEARCHED_BYTES:
            return None
        text = bytes(raw)
        if b"\\u00" in text and _LETTER.search(text) is not None:
            return None
        count = 0
        for field in self._bodies.twin(hint).fields:
            if field.is_container:
                if typing.get_origin(field.hint) is not list:
                    return None
                (item,) = typing.get_args(field.hint)
                if not _is_struct(item):
                    return None
                inner = self._bodies.twin(item).fields
                required = [each.key for each in inner if each.is_required]
                if not required or any(each.is_container and each.key in text for each in inner):
                    return None
                count += text.count(required[0])
        return count if count <= self._max_items else None

    def _spend(self, values: int, where: str) -> None:
        self._left -= values
        if self._left < 0:
            raise errors.BadRequest(f"{where or 'the body'}: more than {self._most} values")
        self._hold(values * _VALUE_BYTES)

    async def _count(self, raw: Text) -> int:
        """Values that this JSON holds besides the first of each level: their commas."""
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
        twin = self._bodies.twin(_tagged(raw, types_, where))
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


class _Field(NamedTuple):
    name: str
    wire_name: str
    hint: Any
    is_container: bool
    is_required: bool

    @property
    def key(self) -> bytes:
        return b'"%b"' % self.wire_name.encode()


class _Twin(NamedTuple):
    """A struct, and one of the same fields in which lists and objects are raw JSON."""

    struct: type[Any]
    raw_struct: type[Any]
    fields: tuple[_Field, ...]


def _twin(type_: type[Any]) -> _Twin:
    hints = typing.get_type_hints(type_, include_extras=True)
    fields: list[_Field] = []
    definitions: list[Any] = []
    for each in msgspec.structs.fields(type_):
        hint = hints[each.name]
        is_container = any(_is_container(kind) for kind in _alternatives(hint)[0])
        fields.append(_Field(each.name, each.encode_name, hint, is_container, each.required))
        kept = msgspec.Raw if is_container else hint
        if each.required:
            definitions.append((each.name, kept, msgspec.field(name=each.encode_name)))
        else:
            absent = msgspec.field(default=msgspec.UNSET, name=each.encode_name)
            definitions.append((each.name, Union[kept, msgspec.UnsetType], absent))  # noqa: UP007 - of values
    config = type_.__struct_config__
    raw = msgspec.defstruct(
        type_.__name__,
        definitions,
        kw_only=True,
        forbid_unknown_fields=config.forbid_unknown_fields,
        tag_field=config.tag_field,
        tag=config.tag,
    )
    return _Twin(type_, raw, tuple(fields))


def _tagged(raw: Text, types_: list[type[Any]], where: str) -> type[Any]:
    """Which of several structs the tag names."""
    if len(types_) == 1:
        return types_[0]
    field = types_[0].__struct_config__.tag_field
    assert field is not None
    tag = decode(raw, _peek(field), where).tag
    for each in types_:
        if each.__struct_config__.tag == tag:
            return each
    pointer = f"{where}/{field}"
    raise errors.BadRequest(f"{pointer}: unknown value")


@functools.cache
def _peek(tag_field: str) -> type[Any]:
    """A struct of the tag alone. Made once: each type has a decoder that is kept."""
    fields = [("tag", Any, msgspec.field(default=None, name=tag_field))]
    return msgspec.defstruct("Peek", fields)


def _alternatives(hint: Any) -> tuple[list[Any], bool]:  # noqa: ANN401 - a type
    """The types that a value may have; False if limits of the hint apply to the whole value."""
    if typing.get_origin(hint) is Annotated:
        return _alternatives(typing.get_args(hint)[0])[0], False
    if typing.get_origin(hint) not in (Union, types.UnionType):
        return [hint], True
    kinds: list[Any] = []
    is_plain = True
    for each in typing.get_args(hint):
        inner, is_inner_plain = _alternatives(each)
        kinds += inner
        is_plain = is_plain and (is_inner_plain or not any(map(_is_container, inner)))
    return kinds, is_plain


def _is_struct(kind: Any) -> bool:  # noqa: ANN401 - a type
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _is_container(kind: Any) -> bool:  # noqa: ANN401 - a type
    return kind is Any or _is_struct(kind) or typing.get_origin(kind) in (list, tuple, dict, set)


def _is_shallow(kind: Any) -> bool:  # noqa: ANN401 - a type
    """An object whose members stay raw JSON."""
    return typing.get_origin(kind) is dict and typing.get_args(kind)[1] is msgspec.Raw


async def _check_density(raw: bytes) -> None:
    """Raise BodyTooLarge for values without end: each costs time, even where it stays raw JSON."""
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
    """Raise BadRequest unless this is UTF-8, a step at a time."""
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
