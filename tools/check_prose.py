"""
Check the wording of docs, and of the strings in the code that users read, with vale.

Usage::

    python -m tools.check_prose README.md docs
"""

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from queen import errors, telemetry
from queen.cli.command_table import SECTIONS
from tests.cli.tree import COMMANDS, ROOT

REPOSITORY = Path(__file__).parents[1]
VALE = os.environ.get("VALE") or str(Path(sys.prefix) / "bin" / "vale")
_SOURCES = REPOSITORY / "src" / "queen"
_PLACEHOLDER = re.compile(r"\$\{[^{}`\"]*\}")
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"|`((?:[^`$\\]|\$(?!\{)|\\.)*)`')


class Text(NamedTuple):
    """A string in the code."""

    file: Path
    line: int
    words: str


class Finding(NamedTuple):
    """A place that breaks a rule of .vale/styles/Queen."""

    file: str
    line: int
    rule: str
    message: str


def findings(pages: Iterable[str], texts: Iterable[Text] = ()) -> list[Finding]:
    """Check pages, which are files or directories of the repository, and texts."""
    command = [VALE, f"--config={REPOSITORY / '.vale.ini'}", "--no-exit", "--output=JSON", *pages]
    with TemporaryDirectory() as directory:
        sources = _write(Path(directory), texts)
        output = subprocess.check_output([*command, *sources], cwd=REPOSITORY)
    found: list[Finding] = []
    alerts: dict[str, list[dict[str, Any]]] = json.loads(output)
    for page, of_page in alerts.items():
        for alert in of_page:
            line = (alert["Line"] + 1) // 2 if page in sources else alert["Line"]
            found.append(Finding(sources.get(page, page), line, alert["Check"], alert["Message"]))
    return sorted(found)


def _write(directory: Path, texts: Iterable[Text]) -> dict[str, str]:
    """Write a page per source. Its line n becomes line 2n - 1, so each line is a paragraph."""
    lines: dict[Path, dict[int, list[str]]] = {}
    for text in dict.fromkeys(texts):
        row = lines.setdefault(text.file, {}).setdefault(text.line, [])
        row.append(" ".join(text.words.split()))
    sources: dict[str, str] = {}
    for file, found in lines.items():
        page = directory / f"{len(sources)}.md"
        rows = (" — ".join(found.get(line, [])) for line in range(1, max(found) + 1))
        page.write_text("\n\n".join(rows), encoding="utf-8")
        sources[str(page)] = str(file.relative_to(REPOSITORY))
    return sources


def texts_of_code() -> Iterator[Text]:
    """Collect messages of errors, help of commands, metrics and events, and dashboard strings."""
    for value in vars(errors).values():
        if inspect.isclass(value) and issubclass(value, errors.QueenError):
            yield _text(value.default_message, *(_SOURCES / "errors").glob("*.py"))
    for place in (place for section in SECTIONS.values() for place in section.values()):
        yield _text(place.help, _SOURCES / "cli" / "command_table.py")
    for command in (ROOT, *COMMANDS.values()):
        home = Path(inspect.getfile(inspect.unwrap(command.callback)))
        for described in (command, *command.params):
            yield _text(described.help or "", home, *(_SOURCES / "cli").rglob("*.py"))
    for words in (*(metric.help for metric in telemetry.METRICS), *telemetry.EVENTS.values()):
        yield _text(words, _SOURCES / "telemetry.py")
    for file in (REPOSITORY / "dashboard" / "src" / "text").glob("*.ts"):
        for number, line in enumerate(_content(file).splitlines(), start=1):
            if not re.match(r"\s*(/\*|\*|//|import\b)", line):
                yield from (Text(file, number, words) for words in literals(line))


def literals(line: str) -> Iterator[str]:
    """The strings in a line of TypeScript, with X for each placeholder."""
    while found := _LITERAL.search(line := _PLACEHOLDER.sub("X", line)):
        yield found[1] or found[2] or ""
        line = f"{line[: found.start()]}X{line[found.end() :]}"


def _text(words: str, *files: Path) -> Text:
    start = words.strip().split("\n")[0][:24]
    file = next((each for each in files if start in _content(each)), files[0])
    return Text(file, _content(file).partition(start or "\n")[0].count("\n") + 1, words)


@cache
def _content(file: Path) -> str:
    return file.read_text("utf-8")


if __name__ == "__main__":
    rewrite = findings(sys.argv[1:], texts_of_code())
    print(*(f"{each.file}:{each.line}: {each.message}" for each in rewrite), sep="\n")
    sys.exit(1 if rewrite else 0)
