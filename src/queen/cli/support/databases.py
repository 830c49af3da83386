"""The database that a command uses. Passwords come from a file, stdin or the environment."""

import os
import sys
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit

import typer

from queen import errors
from queen.cli.support import exit_codes

Dsn = Annotated[
    str | None,
    typer.Option("--dsn", help="Database URL, without its password.", show_default=False),
]
DsnFile = Annotated[
    str | None,
    typer.Option(
        "--dsn-file",
        metavar="FILE",
        help="File with the database URL. - reads stdin.",
        show_default=False,
    ),
]
_NAMES: Final = ("DATABASE_URL", "QUEEN_DATABASES", "PG_HOST", "PG_DB", "PG_USER")


def database(
    dsn: str | None, dsn_file: str | None, *, variable: str = "DATABASE_URL"
) -> str | None:
    """Return the database of the options, with the TLS settings of this environment."""
    if dsn is not None and dsn_file is not None:
        raise errors.BadRequest("--dsn and --dsn-file exclude each other")
    if dsn_file is not None:
        dsn = secret(dsn_file)
    elif dsn is not None:
        warn(dsn, "--dsn", f"--dsn-file FILE or {variable}")
    return None if dsn is None else with_tls(dsn)


def with_tls(dsn: str) -> str:
    """Add the PG_SSL variables of this environment to a DSN."""
    from queen.settings import Settings

    environment = {name: value for name, value in os.environ.items() if name.startswith("PG_SSL")}
    return Settings.from_environ(environment).with_tls(dsn)


def databases(dsn: str | None, dsn_file: str | None) -> dict[str, str]:
    """Return the database of the options, or those of this environment by name. May be empty."""
    if (named := database(dsn, dsn_file)) is not None:
        return {"main": named}
    if not any(name in os.environ for name in _NAMES):
        return {}
    from queen.cli.support.environment import settings

    return settings().dsns


def secret(file: str) -> str:
    """Read the first line of stdin (-), or a file."""
    try:
        text = sys.stdin.readline() if file == "-" else Path(file).expanduser().read_text("utf-8")
    except OSError as error:
        raise exit_codes.FileTrouble(f"cannot read {file}: {error.strerror}") from error
    if not (found := text.strip()):
        raise errors.BadRequest(f"{'stdin' if file == '-' else file} is empty")
    return found


def warn(dsn: str, option: str, instead: str) -> None:
    """Warn about a password on the command line, which every user of the machine can read."""
    if _has_password(dsn):
        print(
            f"queen: warning: other users of this machine can read the password in {option}."
            f" Use {instead}.",
            file=sys.stderr,
        )


def _has_password(dsn: str) -> bool:
    try:
        parts = urlsplit(dsn)
    except ValueError:
        return "password" in dsn
    is_keyword = "://" not in dsn and "password" in dsn
    return is_keyword or bool(parts.password) or "password" in dict(parse_qsl(parts.query))
