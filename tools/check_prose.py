"""
Check the wording of docs, of docstrings and comments, and of strings that users read, with vale.

Usage::

    python -m tools.check_prose README.md docs
"""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from io import StringIO
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

from queen import errors, telemetry
from queen.cli.command_table import SECTIONS
from queen.server.http.openapi import document
from queen.server.routes.table import ROUTES
from tests.cli.tree import COMMANDS, ROOT

REPOSITORY = Path(__file__).parents[1]
VALE = os.environ.get("VALE") or str(Path(sys.prefix) / "bin" / "vale")
_SOURCES = REPOSITORY / "src" / "queen"
_DUMP = REPOSITORY / "tests" / "sql" / "schema.sql"
_PLACEHOLDER = re.compile(r"\$\{[^{}`\"]*\}")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SQL_COMMENT = re.compile(r"--\s+(?!name: )(.*)$")
_DIRECTIVE = re.compile(r"#\s*(noqa|pyright|type:|ruff|pragma|fmt|!)")
_MESSAGE_TAKER = re.compile(r"^(errors\.[A-Z]\w+|_LOG\.\w+|\w*Error|typer\.BadParameter|Stop)$")
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


def texts_of_sources(*directories: str) -> Iterator[Text]:
    """Collect docstrings, comments and test names in Python, and comments in SQL."""
    for directory in directories:
        for file in sorted((REPOSITORY / directory).rglob("*.py")):
            yield from _texts_of_module(file)
        for file in sorted({*(REPOSITORY / directory).rglob("*.sql")} - {_DUMP}):
            for number, line in enumerate(_content(file).splitlines(), start=1):
                if (found := _SQL_COMMENT.search(line)) is not None:
                    yield Text(file, number, found[1])


def _texts_of_module(file: Path) -> Iterator[Text]:
    source = _content(file)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(words := node.value.value, str):
                for number, line in enumerate(words.splitlines(), start=node.lineno):
                    yield Text(file, number, line)
        elif isinstance(node, _FUNCTIONS) and node.name.startswith("test_"):
            yield Text(file, node.lineno, node.name.replace("_", " "))
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            yield Text(file, token.start[0], token.string.lstrip("# "))


def texts_of_errors(*directories: str) -> Iterator[Text]:
    """Collect the messages that the code passes to errors and to the log."""
    for directory in directories:
        for file in sorted((REPOSITORY / directory).rglob("*.py")):
            for node in ast.walk(ast.parse(_content(file))):
                if isinstance(node, ast.Call) and _MESSAGE_TAKER.search(ast.unparse(node.func)):
                    for argument in node.args:
                        if isinstance(argument, ast.Constant | ast.JoinedStr):
                            yield Text(file, argument.lineno, _words(argument))


def _words(node: ast.expr) -> str:
    """Return a string, with X for each placeholder."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_words(part) for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "X"


def texts_of_code() -> Iterator[Text]:
    """Collect messages of errors, help of commands, metrics, events, OpenAPI and the dashboard."""
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
    homes = [*(_SOURCES / "wire").rglob("*.py"), *(_SOURCES / "server").rglob("*.py")]
    for words in sorted(set(_described(document(ROUTES)))):
        yield _text(words, *homes)
    for file in (REPOSITORY / "dashboard" / "src" / "text").glob("*.ts"):
        for number, line in enumerate(_content(file).splitlines(), start=1):
            if not re.match(r"\s*(/\*|\*|//|import\b)", line):
                yield from (Text(file, number, words) for words in literals(line))


def _described(node: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield the texts of the OpenAPI document, except examples."""
    if isinstance(node, dict):
        for name, value in cast("dict[str, Any]", node).items():
            if name in ("description", "summary") and isinstance(value, str):
                yield value
            elif name not in ("example", "responses"):
                yield from _described(value)
    elif isinstance(node, list):
        for value in cast("list[Any]", node):
            yield from _described(value)


def literals(line: str) -> Iterator[str]:
    """Yield the strings in a line of TypeScript, with X for each placeholder."""
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
    sources = texts_of_sources("src", "tests", "tools", "benchmarks", "examples")
    rewrite = findings(sys.argv[1:], chain(texts_of_code(), texts_of_errors("src", "benchmarks")))
    rewrite += [each for each in findings((), sources) if each.rule != "Queen.UserTerms"]
    print(*(f"{each.file}:{each.line}: {each.message}" for each in rewrite), sep="\n")
    sys.exit(1 if rewrite else 0)
