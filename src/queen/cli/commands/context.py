"""`queen context`: servers under short names, in a file that only its owner reads."""

from pathlib import Path
from typing import Annotated, Any

import typer

from queen import errors
from queen.cli.command_table import group
from queen.cli.support import contexts
from queen.cli.support.client import DryRun, Output, Yes, confirm
from queen.cli.support.databases import secret
from queen.cli.support.output import Format, say, show

app = group("Servers under short names.")

TlsFile = Annotated[Path | None, typer.Option(metavar="FILE", help="For TLS, as of `queen`.")]
Name = Annotated[str, typer.Argument(help="What you call it.")]


@app.command()
def add(
    name: Name,
    server: Annotated[str, typer.Option("--server", help="URL; several with commas fail over.")],
    token: Annotated[
        str | None, typer.Option(help="Where its key is: - reads stdin, @FILE a file.")
    ] = None,
    ca_file: TlsFile = None,
    client_cert: TlsFile = None,
    client_key: TlsFile = None,
    use: Annotated[bool, typer.Option("--use", help="Use it from now on.")] = False,
) -> None:
    """
    Name a server, or change what a name stands for. The first one is used from then on.

    Example: queen context add staging --server https://queen.staging:6632
    """
    urls = [url.strip().rstrip("/") for url in server.split(",")]
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise errors.BadRequest(f"{url!r}: a server is named http://… or https://…")
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
    say(f"{name} is {server}" + (", and in use" if known["current"] == name else ""))


@app.command("use")
def use_(name: Name) -> None:
    """
    Use a server from now on.

    Example: queen context use staging
    """
    known = contexts.read()
    contexts.require(known, name)
    known["current"] = name
    contexts.write(known)
    say(f"{name} is in use")


@app.command("ls")
def list_(output: Output = Format.TABLE) -> None:
    """
    List contexts; keys are not shown.

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
    Forget a context with its key.

    Example: queen context rm staging --yes
    """
    known = contexts.read()
    contexts.require(known, name)
    if dry_run:
        say(f"would forget {name}")
        return
    confirm(f"forget context {name}", yes=yes)
    del known["contexts"][name]
    if known["current"] == name:
        known["current"] = None
    contexts.write(known)
    say(f"{name} is forgotten")


def _secret(source: str) -> str:
    """Read a key. It is never an argument itself: all users of the machine could read it."""
    if source != "-" and not source.startswith("@"):
        raise errors.BadRequest(
            "others can read a command line: give the key by --token - or --token @FILE"
        )
    return secret(source.removeprefix("@"))
