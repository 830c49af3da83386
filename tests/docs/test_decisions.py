"""Decision records have one form: number, title, status and date."""

import re
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest

DIRECTORY = Path(__file__).parents[2] / "docs" / "decisions"
HEAD = re.compile(
    r"# (?P<number>\d{4})\. (?P<title>.+)\n\n"
    r"Status: (?P<status>(?:Proposed|Accepted|Rejected|Superseded by \[\d{4}\]\(\S+\))\."
    r"(?: .+)?)\n\n"
    r"Date: (?P<date>\d{4}-\d{2}-\d{2})\n\n"
)
RECORDS = sorted(path for path in DIRECTORY.glob("*.md") if path.name[0].isdigit())
PAIRS = {"Changes": "Changed by", "Extends": "Extended by", "Supersedes": "Superseded by"}
"""A verb in the status of the later decision, and its counterpart in the earlier one."""


class Head(NamedTuple):
    """The first lines of a record."""

    number: str
    title: str
    status: str
    date: str


def head_of(path: Path) -> Head:
    found = HEAD.match(path.read_text("utf-8"))
    assert found is not None, f"{path.name} does not begin with number, title, status and date"
    return Head(**found.groupdict())


def relations(path: Path, verb: str) -> set[str]:
    """The numbers that the status names after a verb, up to the end of its sentence."""
    sentences = re.findall(rf"{verb}\b(.*?)(?=\. |\.$)", head_of(path).status)
    return {number for each in sentences for number in re.findall(r"\[(\d{4})\]", each)}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_number_and_title_match_the_file_name(path: Path) -> None:
    head = head_of(path)
    slug = re.sub(r"[^a-z0-9]+", "-", head.title.lower())
    assert f"{head.number}-{slug}" == path.stem
    assert date.fromisoformat(head.date).isoformat() == head.date


def test_numbers_are_unique() -> None:
    numbers = [head_of(path).number for path in RECORDS]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_related_decisions_name_each_other(path: Path) -> None:
    own = path.stem[:4]
    for later, earlier in PAIRS.items():
        for verb, opposite in ((later, earlier), (earlier, later)):
            for number in relations(path, verb):
                (other,) = DIRECTORY.glob(f"{number}-*.md")
                assert own in relations(other, opposite), f"{number} does not name {own}"


def test_links_use_the_number_of_their_target() -> None:
    for path in RECORDS:
        for number, target in re.findall(r"\[(?:Decision )?(\d{4})\]\((\S+)\)", path.read_text()):
            assert target.startswith(number), path.name
