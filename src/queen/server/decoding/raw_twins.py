"""Twins of structs in which lists and objects stay raw JSON, to decode level by level."""

import functools
import types
import typing
from typing import Annotated, Any, NamedTuple, Union

import msgspec

from queen import errors
from queen.server.decoding.decoder import Text, decode


class Field(NamedTuple):
    """A field of a struct."""

    name: str
    wire_name: str
    hint: Any
    is_container: bool
    is_required: bool

    @property
    def key(self) -> bytes:
        """Its name as JSON."""
        return b'"%b"' % self.wire_name.encode()


class RawTwin(NamedTuple):
    """A struct, and one with the same fields in which lists and objects stay raw JSON."""

    struct: type[Any]
    raw_struct: type[Any]
    fields: tuple[Field, ...]


@functools.cache
def twin_of(type_: type[Any]) -> RawTwin:
    """Define the twin of a struct, once."""
    hints = typing.get_type_hints(type_, include_extras=True)
    fields: list[Field] = []
    definitions: list[Any] = []
    for each in msgspec.structs.fields(type_):
        hint = hints[each.name]
        is_container = any(is_container_type(kind) for kind in alternatives(hint)[0])
        fields.append(Field(each.name, each.encode_name, hint, is_container, each.required))
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
    return RawTwin(type_, raw, tuple(fields))


def tagged_type(raw: Text, types_: list[type[Any]], where: str) -> type[Any]:
    """Return the struct that the tag names."""
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
    """Define a struct with only the tag, once per name, because decoders are cached by type."""
    fields = [("tag", Any, msgspec.field(default=None, name=tag_field))]
    return msgspec.defstruct("Peek", fields)


def alternatives(hint: Any) -> tuple[list[Any], bool]:  # noqa: ANN401 - a type
    """Return the possible types of a value; False if a limit applies to the whole value."""
    if typing.get_origin(hint) is Annotated:
        return alternatives(typing.get_args(hint)[0])[0], False
    if typing.get_origin(hint) not in (Union, types.UnionType):
        return [hint], True
    kinds: list[Any] = []
    is_plain = True
    for each in typing.get_args(hint):
        inner, is_inner_plain = alternatives(each)
        kinds += inner
        is_plain = is_plain and (is_inner_plain or not any(map(is_container_type, inner)))
    return kinds, is_plain


def is_struct(kind: Any) -> bool:  # noqa: ANN401 - a type
    """Whether it is a struct."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def is_container_type(kind: Any) -> bool:  # noqa: ANN401 - a type
    """Whether its values hold other values."""
    return kind is Any or is_struct(kind) or typing.get_origin(kind) in (list, tuple, dict, set)


def is_shallow(kind: Any) -> bool:  # noqa: ANN401 - a type
    """Whether it is an object whose members stay raw JSON."""
    return typing.get_origin(kind) is dict and typing.get_args(kind)[1] is msgspec.Raw
