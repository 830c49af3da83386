"""Descriptions of fields come from the docstrings below them."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from py_compile import compile as compiled

import msgspec

from queen.wire.field_docs import field_docs


class Base(msgspec.Struct):
    """A struct."""

    name: str
    """Name of the queue."""
    total: int = 0
    """Number of messages
    in all partitions."""
    plain: int = 0


class Derived(Base):
    """A struct that inherits fields."""

    plain: int = 1
    """Number of this class."""
    other: int = 2


def test_the_docstring_below_a_field_describes_it() -> None:
    assert field_docs(Base) == {
        "name": "Name of the queue.",
        "total": "Number of messages in all partitions.",
    }


def test_inherited_fields_keep_their_description() -> None:
    assert field_docs(Derived) == {**field_docs(Base), "plain": "Number of this class."}


def test_a_module_without_its_source_has_no_descriptions(tmp_path: Path) -> None:
    source = tmp_path / "bare_module.py"
    source.write_text(
        'import msgspec\n\nclass Bare(msgspec.Struct):\n    name: str\n    """A."""\n'
    )
    spec = spec_from_file_location("bare_module", compiled(str(source), str(source) + "c"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["bare_module"] = module
    try:
        spec.loader.exec_module(module)
        assert field_docs(module.Bare) == {}
    finally:
        del sys.modules["bare_module"]
