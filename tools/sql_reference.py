"""The SQL functions and roles as Markdown, from the comments in src/queen/sql."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from queen import sql

PUBLIC: Final = {
    "enqueue": ("queen_producer", "queen_app"),
    "hold": ("queen_pipeline", "queen_app"),
    "unhold": ("queen_pipeline", "queen_app", "queen_retention"),
    "drop_archive": ("queen_pipeline", "queen_app", "queen_retention"),
}
"""
Functions that people and applications call, each with the roles that can call it.

The server calls all the others. The first role is the one with the fewest privileges.
"""
VIEW_ROLES: Final = ("queen_readonly", "queen_pipeline", "queen_retention", "queen_app")
"""The roles that can read the view `queen.messages`."""
_DIRECTORY: Final = Path(sql.__file__ or "").parent / "functions"
_FUNCTION: Final = re.compile(
    r"(?P<head>(?:^--[^\n]*\n)*)^create or replace function queen\.(?P<name>\w+) ?"
    r"\((?P<parameters>.*?)\)(?:\s+returns (?P<result>.*?))?\s+language",
    flags=re.MULTILINE | re.DOTALL,
)


class Function(NamedTuple):
    """A function in the schema `queen`."""

    area: str
    name: str
    comment: str
    parameters: list[str]
    result: str

    @property
    def summary(self) -> str:
        """The first sentence of the comment."""
        return re.split(r"(?<=[.:]) (?=[A-Z`])", self.comment.partition("\n\n")[0])[0]


def all_functions() -> list[Function]:
    """Return the functions by directory and name."""
    return sorted(_read())


def _read() -> Iterator[Function]:
    for path in _DIRECTORY.rglob("*.sql"):
        for found in _FUNCTION.finditer(path.read_text("utf-8")):
            lines = [line.removeprefix("--").strip() for line in found["head"].splitlines()]
            paragraphs = "\n".join(lines).strip().split("\n\n")
            yield Function(
                path.parent.name,
                found["name"],
                "\n\n".join(" ".join(each.split()) for each in paragraphs),
                [
                    " ".join(each.split())
                    for each in re.split(r",\s+", found["parameters"].strip())
                    if each
                ],
                " ".join((found["result"] or "record").split()),
            )


def public_functions() -> str:
    """Return a section for each function that applications call."""
    found = {each.name: each for each in all_functions()}
    return "\n".join(_section(found[name]) for name in PUBLIC)


def _section(function: Function) -> str:
    inner = ",\n".join(f"  {each}" for each in function.parameters)
    return f"""\
### queen.{function.name}

{function.comment}

{_needed(PUBLIC[function.name])}

```sql
queen.{function.name}(
{inner}
) returns {function.result}
```
"""


def view_columns() -> str:
    """List the columns of the view `queen.messages`."""
    text = sql.FUNCTIONS["messages"]
    (body,) = re.findall(r"view queen\.messages as\nselect\n(.*?)\nfrom", text, flags=re.DOTALL)
    lines = [line.rstrip(",") for line in body.splitlines() if "--" not in line]
    names = [re.split(r"[ .]", line)[-1].strip('"') for line in lines]
    columns = ", ".join(f"`{name}`" for name in names)
    return f"{_needed(VIEW_ROLES)}\n\nColumns: {columns}\n"


def _needed(names: tuple[str, ...]) -> str:
    return f"Roles: {', '.join(f'`{each}`' for each in names)}"


def functions() -> str:
    """Return a table of the functions that the server calls, without their helpers."""
    called = set(re.findall(r"\bqueen\.(\w+) ?\(", "\n".join(sql.CALLS.values())))
    rows = [
        f"| `{each.name}` | `{each.area}` | {_escaped(each.summary)} |"
        for each in all_functions()
        if each.name in called and each.name not in PUBLIC
    ]
    return "\n".join(["| Function | Area | Purpose |", "|---|---|---|", *rows]) + "\n"


def roles() -> str:
    """Return a table of the database roles."""
    found = re.findall(r"^-- (queen_\w+) +(.+)$", sql.ROLES, flags=re.MULTILINE)
    rows = [f"| `{name}` | {text} |" for name, text in found]
    return "\n".join(["| Role | Use |", "|---|---|", *rows]) + "\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
