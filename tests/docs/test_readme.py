"""The README works from the top, is short, and has its pictures in light and dark."""

import re
from pathlib import Path

import pytest

from tests.cli.tree import COMMANDS
from tests.support.postgres import Server as PostgresServer
from tests.support.tutorial import Tutorial

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "README.md"
TEXT = PAGE.read_text("utf-8")
MOST_WORDS = 900
LEFT_OUT = {"pip install": "it needs a package index, and this environment has the packages"}
DATABASE = "postgresql://queen@db/queen"
_CODE = re.compile(r"^```.*?^```$", flags=re.DOTALL | re.MULTILINE)
_PICTURE = re.compile(r"<picture>(.*?)</picture>", flags=re.DOTALL)


def sections() -> dict[str, str]:
    """The sections of the page, by heading."""
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, flags=re.DOTALL | re.MULTILINE))


def part(path: Path, text: str) -> Path:
    """Write some text of the page to a file that can be followed."""
    path.write_text(text, "utf-8")
    return path


@pytest.mark.timeout(120)  # It starts PostgreSQL, a server and a worker.
def test_the_quickstarts_work_and_print_the_shown_output(tmp_path: Path) -> None:
    before, _, _ = TEXT.partition("\n## Deploy\n")
    tutorial = Tutorial(part(tmp_path / "README.md", before), tmp_path, LEFT_OUT)
    tutorial.follow()
    assert tutorial.skipped == ["pip install '.[server]'"]


@pytest.mark.timeout(120)
def test_the_commands_to_deploy_work(postgres: PostgresServer, tmp_path: Path) -> None:
    text = sections()["Deploy"]
    assert text.count(DATABASE) == 1
    dsn = postgres.create_database("readme")
    page = part(tmp_path / "README.md", text.replace(DATABASE, f"'{dsn}'"))
    tutorial = Tutorial(page, tmp_path, LEFT_OUT)
    tutorial.follow()
    assert tutorial.skipped == ["pip install '.[server-slim]'"]


def test_every_block_of_code_is_in_a_section_that_is_followed() -> None:
    _, _, after = TEXT.partition("\n## Deploy\n")
    assert _CODE.findall(after) == _CODE.findall(sections()["Deploy"])


def test_commands_in_sentences_exist() -> None:
    text = _CODE.sub("", TEXT)
    commands = re.findall(r"`queen ([a-z ]+?)(?: --.*?)?`", text)
    assert "dev --demo" in text
    assert {tuple(each.split()) for each in commands} <= set(COMMANDS)
    targets = set(re.findall(r"`make ([\w-]+)`", text))
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert targets
    assert targets <= set(re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE))


def test_the_page_is_short() -> None:
    """Counts as `wc -w` does, without blocks of code, and with the markup of tables and HTML."""
    words = _CODE.sub("", TEXT).split()
    assert len(words) <= MOST_WORDS


def test_every_picture_exists_in_light_and_dark() -> None:
    pictures = _PICTURE.findall(TEXT)
    assert len(pictures) >= 2
    assert TEXT.count("<img ") == len(pictures)
    assert not re.search(r"!\[", TEXT)
    for picture in pictures:
        (dark,) = re.findall(
            r'<source media="\(prefers-color-scheme: dark\)" srcset="(.+?)">', picture
        )
        (light,) = re.findall(r'<img src="(.+?)" alt=".+?">', picture)
        assert dark != light
        assert (ROOT / dark).is_file(), dark
        assert (ROOT / light).is_file(), light
