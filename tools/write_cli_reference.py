"""
Writes the second half of docs/reference/cli.md from the commands themselves.

Usage::

    python -m tools.write_cli_reference
"""

import re
import textwrap
from pathlib import Path
from typing import Any

from queen.cli.command_table import SECTIONS
from tests.cli.tree import COMMANDS, ROOT

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
MARK = "<!-- From here on `python -m tools.write_cli_reference` writes. -->\n"


def rendered() -> str:
    """Every command with its options."""
    parts = ["## Global options\n", _table(ROOT.params)]
    for title, section in SECTIONS.items():
        parts.append(f"## {title}\n")
        for path, command in COMMANDS.items():
            if path[0] in section:
                parts.append(_command(path, command))
    return "\n".join(parts)


def _command(path: tuple[str, ...], command: Any) -> str:  # noqa: ANN401 - typer's types are private
    text, _, example = textwrap.dedent(command.help).strip().partition("Example: ")
    paragraphs = [re.sub(r"\s+", " ", each).strip() for each in text.strip().split("\n\n")]
    lines = [f"### queen {' '.join(path)}\n", "\n\n".join(paragraphs), ""]
    lines += [f"    {example.strip()}\n"]
    if command.params:
        lines.append(_table(command.params))
    return "\n".join(lines)


def _table(params: list[Any]) -> str:
    rows = [
        f"| {_name(each)} | {_default(each)} | {(each.help or '').replace('|', chr(92) + '|')} |"
        for each in params
    ]
    return "\n".join(["| Option | Default | Description |", "|---|---|---|", *rows, ""])


def _name(param: Any) -> str:  # noqa: ANN401 - typer's types are private
    if param.param_type_name == "argument":
        return f"`{(param.metavar or param.name.rstrip('_')).upper()}`"
    return ", ".join(f"`{each}`" for each in (*param.opts, *param.secondary_opts))


def _default(param: Any) -> str:  # noqa: ANN401 - typer's types are private
    if param.required:
        return "required"
    if param.default in (None, False, ""):
        return ""
    value = getattr(param.default, "value", param.default)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def main() -> None:
    head, _, _ = PAGE.read_text("utf-8").partition(MARK)
    PAGE.write_text(head + MARK + "\n" + rendered(), "utf-8")


if __name__ == "__main__":
    main()
