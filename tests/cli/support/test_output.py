"""Tables, JSON, YAML, CSV and names: the same output formats for every command."""

import csv
import io
import json
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings, strategies as st

from queen.cli.apply.documents import documents_of
from queen.cli.support.output import cell, safe, yaml_text
from tests.cli.shell import Shell

# Without lone surrogates: JSON from a server has none.
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(VALUES)
@example({"text": "\r\n0"})
@example({"a": ["08", "1e3", "0o17", "1.", ".5", "12:30", "on", "<<"], "<<": 1, "1": 2})
@example({"text": "\n 0\n\n", " ": ["\u202e\x1b[31m\n", "\ufeff", "...", 1e16]})
def test_yaml_round_trips(value: Any) -> None:  # noqa: ANN401 - JSON
    text = yaml_text(value)
    assert yaml.safe_load(text) == value
    (document,) = documents_of("file", text)  # As YAML 1.2.
    assert document.value == value
    assert text.replace("\n", "").isprintable()


def test_yaml_shows_letters_and_lines_unescaped() -> None:
    assert yaml_text({"a": "größer\nals\n", "b": [{"c": "no"}]}) == (
        "a: |\n  größer\n  als\nb:\n- c: 'no'\n"
    )


def test_a_cell_shows_unknown_values_and_escapes_control_characters() -> None:
    assert [cell(each) for each in (None, True, 0, 1.5, {"a": [1]}, "x")] == [
        "-", "yes", "0", "1.5", '{"a": [1]}', "x",
    ]  # fmt: skip
    assert safe("a\x1b[31m\n\u202eb") == "a\\x1b[31m\\n\\u202eb"


async def test_each_format_has_the_same_content(shell: Shell) -> None:
    await shell.run("queue", "configure", "b.orders", "leaseTime=60", "--namespace", "shop")
    await shell.run("queue", "configure", "a", "leaseTime=60")

    told: dict[str, str] = {}
    while told.get("json") != (now := (await shell.run("queue", "ls", "-o", "json")).out):
        # Unless the counts change meanwhile.
        told = {"json": now} | {
            each: (await shell.run("queue", "ls", "-o", each)).out
            for each in ("table", "wide", "jsonl", "yaml", "csv", "name")
        }

    rows = json.loads(told["json"])
    assert [row["name"] for row in rows] == ["a", "b.orders"]
    assert told["name"] == "a\nb.orders\n"
    assert [json.loads(line) for line in told["jsonl"].splitlines()] == rows
    assert yaml.safe_load(told["yaml"]) == rows
    sheet = list(csv.DictReader(io.StringIO(told["csv"])))
    assert sheet[1]["namespace"] == "shop"
    assert sheet[0]["oldestAgeSeconds"] == ""
    assert set(sheet[0]) == set(rows[0])
    assert told["table"].splitlines()[0].split()[:2] == ["name", "namespace"]
    assert set(rows[0]) == set(told["wide"].splitlines()[0].split())


@pytest.mark.parametrize("format_", ["table", "json", "jsonl", "yaml", "csv", "name"])
async def test_a_single_object_is_shown_in_each_format(shell: Shell, format_: str) -> None:
    ended = await shell.run("queue", "configure", "orders", "leaseTime=60", "-o", format_)
    assert ended.code == 0
    assert ended.out


async def test_an_empty_result_is_an_empty_list_for_programs_and_a_word_for_users(
    shell: Shell,
) -> None:
    assert (await shell.run("queue", "ls", "-o", "json")).out == "[]\n"
    shown = await shell.run("queue", "ls")
    assert (shown.out, shown.err) == ("", "no results\n")
    assert (await shell.run("queue", "ls", "-o", "xml")).code == 2
