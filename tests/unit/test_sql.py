"""Every SQL text is found, has a unique name and follows the conventions."""

import re
from collections import Counter
from pathlib import Path

import pytest

from queen import sql

ROOT = Path(sql.__file__).parent
FILES = [
    file.read_text("utf-8")
    for file in sorted((ROOT / "calls").rglob("*.sql"), key=lambda file: file.name)
]
MOST_FILES = 20
"""A directory with more files is hard to scan. Split it by subject."""


def test_every_named_call_is_read() -> None:
    heads = re.findall(r"^-- name: (.+)$", "".join(FILES), flags=re.MULTILINE)
    names = [head.partition(" ")[0] for head in heads]

    assert names == list(sql.CALLS)
    assert all(text.startswith("-- ") and text.endswith(";\n") for text in FILES)
    assert len(names) == len(set(names))
    assert {"push", "pop", "ack", "nack", "transact"} <= set(names)
    assert {head.partition(" ")[2] for head in heads} == {"", "hot", "batched"}


@pytest.mark.parametrize("name", sql.CALLS)
def test_a_call_is_one_statement_with_a_purpose(name: str) -> None:
    comment, *lines = sql.CALLS[name].splitlines()
    statement = "\n".join(lines)

    assert re.fullmatch(r"-- \S.*[.:]?", comment)
    assert statement.rstrip().endswith(";")
    assert statement.count(";") == 1


@pytest.mark.parametrize("name", sql.CALLS)
def test_a_call_numbers_its_arguments_without_a_gap(name: str) -> None:
    numbers = {int(number) for number in re.findall(r"\$(\d+)", sql.CALLS[name])}

    assert numbers == set(range(1, len(numbers) + 1))


@pytest.mark.parametrize("name", sql.CALLS)
def test_a_call_uses_functions_that_exist(name: str) -> None:
    used = set(re.findall(r"queen\.(\w+)\s*\(", sql.CALLS[name]))
    made = {
        made
        for text in sql.FUNCTIONS.values()
        for made in re.findall(r"create or replace function queen\.(\w+)", text)
    }

    assert used <= made


@pytest.mark.parametrize("name", sql.FUNCTIONS)
def test_a_file_of_functions_starts_with_its_purpose(name: str) -> None:
    assert sql.FUNCTIONS[name].startswith("-- ")
    assert "create or replace" in sql.FUNCTIONS[name]


def test_files_of_functions_are_read_in_the_order_of_names() -> None:
    files = sorted(file.stem for file in (ROOT / "functions").rglob("*.sql"))

    assert list(sql.FUNCTIONS) == files


def test_no_directory_of_calls_or_functions_has_too_many_files() -> None:
    files = [*(ROOT / "calls").rglob("*.sql"), *(ROOT / "functions").rglob("*.sql")]
    count = Counter(file.parent for file in files)

    assert [str(path) for path, number in count.items() if number > MOST_FILES] == []


def test_migrations_are_numbered_from_one_without_a_gap() -> None:
    numbers = [int(name.partition("_")[0]) for name in sql.MIGRATIONS]

    assert numbers == list(range(1, len(numbers) + 1))


def test_the_texts_are_read_only() -> None:
    for texts in (sql.CALLS, sql.FUNCTIONS, sql.MIGRATIONS):
        with pytest.raises(TypeError):
            texts["other"] = "select 1"  # type: ignore[index]
