"""`queen context`: short names for servers, in a file that only its owner can read."""

from pathlib import Path
from typing import Annotated, Any

import typer

from queen import errors
from queen.cli.command_table import group
from queen.cli.support import contexts
from queen.cli.support.client import DryRun, Output, Yes, confirm
from queen.cli.support.databases import secret
from queen.cli.support.output import Format, say, show

app = group("Manage short names for servers.")

TlsFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Same as the global option.")]
Name = Annotated[str, typer.Argument(help="Name of the context.")]


@app.command()
def add(
    name: Name,
    server: Annotated[str, typer.Option("--server", help="URL, or several with commas.")],
    token: Annotated[
        str | None, typer.Option(help="API key: - reads stdin, @FILE reads a file.")
    ] = None,
    ca_file: TlsFile = None,
    client_cert: TlsFile = None,
    client_key: TlsFile = None,
    use: Annotated[bool, typer.Option("--use", help="Make it the current context.")] = False,
) -> None:
    """
    Add or change a context. The first one becomes the current context.

    Example: queen context add staging --server https://queen.staging:6632
    """
    urls = [url.strip().rstrip("/") for url in server.split(",")]
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise errors.BadRequest(f"{url!r}: the URL of a server starts with http:// or https://")
    known = contexts.read()
    entry: dict[str, Any] = {"servers": urls}
    if token is not None:
        entry["token"] = _secret(token)
    files = {"caFile": ca_file, "clientCertificate": client_cert, "clientKey": client_key}
    entry |= {key: str(file.expanduser().resolve()) for key, file in files.items() if file}
    known["contexts"][name] = entry
    if use or known["current"] is None:
        known["current"] = name
    contexts.write(known)
    say(f"{name} is {server}" + (", and current" if known["current"] == name else ""))


@app.command("use")
def use_(name: Name) -> None:
    """
    Make a context the current one.

    Example: queen context use staging
    """
    known = contexts.read()
    contexts.require(known, name)
    known["current"] = name
    contexts.write(known)
    say(f"{name} is the current context")


@app.command("ls")
def list_(output: Output = Format.TABLE) -> None:
    """
    List contexts, without their API keys.

    Example: queen context ls -o json
    """
    known = contexts.read()
    rows = [
        {
            "name": name,
            "servers": ",".join(each["servers"]),
            "hasToken": "token" in each,
            "current": name == known["current"],
        }
        for name, each in sorted(known["contexts"].items())
    ]
    show(rows, ["name", "servers", "hasToken", "current"], output)


@app.command("rm")
def remove(name: Name, dry_run: DryRun = False, yes: Yes = False) -> None:
    """
    Remove a context and its API key.

    Example: queen context rm staging --yes
    """
    known = contexts.read()
    contexts.require(known, name)
    if dry_run:
        say(f"would remove {name}")
        return
    confirm(f"remove context {name}", yes=yes)
    del known["contexts"][name]
    if known["current"] == name:
        known["current"] = None
    contexts.write(known)
    say(f"{name} is removed")


def _secret(source: str) -> str:
    """Read an API key. Not from an argument, which all users of the machine could read."""
    if source != "-" and not source.startswith("@"):
        raise errors.BadRequest(
            "other users can read a command line: use --token - or --token @FILE"
        )
    return secret(source.removeprefix("@"))
