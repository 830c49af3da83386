"""`queen context`: servers under short names, in a file that only its owner reads."""

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from queen import errors
from queen.cli.command_table import group
from queen.cli.support.client import DryRun, Output, Yes, confirm
from queen.cli.support.databases import secret
from queen.cli.support.output import Format, say, show
from queen.redacted import redacted

app = group("Servers under short names.")

DEFAULT_URL = "http://localhost:6632"

TlsFile = Annotated[Path | None, typer.Option(metavar="FILE", help="For TLS, as of `queen`.")]
Name = Annotated[str, typer.Argument(help="What you call it.")]


class Tls(NamedTuple):
    """Files for TLS, under the names of the client's options."""

    ca_file: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None


class Where(NamedTuple):
    """A server, and the key and the certificates for it."""

    urls: list[str]
    token: str | None
    source: str
    tls: Tls = Tls()

    def __repr__(self) -> str:
        return redacted(self, ("token",))


def file() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "queen" / "contexts.json"


def chosen(server: str | None) -> Where:
    """The server to speak to: flag or environment, else the context, else this machine."""
    token = os.environ.get("QUEEN_TOKEN")
    tls = Tls(*(os.environ.get(f"QUEEN_{name.upper()}") for name in Tls._fields))
    if server is not None:
        # Key and certificates of a context are for that context's server alone.
        return Where([url.strip() for url in server.split(",")], token, "QUEEN_BASE_URL", tls)
    contexts = _read()
    name = os.environ.get("QUEEN_CONTEXT") or contexts["current"]
    if name is None:
        return Where([DEFAULT_URL], token, "default", tls)
    if name not in contexts["contexts"]:
        raise errors.NotFound(f"there is no context {name}: see `queen context ls`")
    found = contexts["contexts"][name]
    if tls.client_certificate is None:
        tls = tls._replace(
            client_certificate=found.get("clientCertificate"), client_key=found.get("clientKey")
        )
    tls = tls._replace(ca_file=tls.ca_file or found.get("caFile"))
    return Where(found["servers"], token or found.get("token"), f"context {name}", tls)


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
    contexts = _read()
    entry: dict[str, Any] = {"servers": urls}
    if token is not None:
        entry["token"] = _secret(token)
    files = {"caFile": ca_file, "clientCertificate": client_cert, "clientKey": client_key}
    entry |= {key: str(file.expanduser().resolve()) for key, file in files.items() if file}
    contexts["contexts"][name] = entry
    if use or contexts["current"] is None:
        contexts["current"] = name
    _write(contexts)
    say(f"{name} is {server}" + (", and in use" if contexts["current"] == name else ""))


@app.command("use")
def use_(name: Name) -> None:
    """
    Use a server from now on.

    Example: queen context use staging
    """
    contexts = _read()
    if name not in contexts["contexts"]:
        raise errors.NotFound(f"there is no context {name}: see `queen context ls`")
    contexts["current"] = name
    _write(contexts)
    say(f"{name} is in use")


@app.command("ls")
def list_(output: Output = Format.TABLE) -> None:
    """
    List contexts; keys are not shown.

    Example: queen context ls -o json
    """
    contexts = _read()
    rows = [
        {
            "name": name,
            "servers": ",".join(each["servers"]),
            "hasToken": "token" in each,
            "current": name == contexts["current"],
        }
        for name, each in sorted(contexts["contexts"].items())
    ]
    show(rows, ["name", "servers", "hasToken", "current"], output)


@app.command("rm")
def remove(name: Name, dry_run: DryRun = False, yes: Yes = False) -> None:
    """
    Forget a context with its key.

    Example: queen context rm staging --yes
    """
    contexts = _read()
    if name not in contexts["contexts"]:
        raise errors.NotFound(f"there is no context {name}: see `queen context ls`")
    if dry_run:
        say(f"would forget {name}")
        return
    confirm(f"forget context {name}", yes=yes)
    del contexts["contexts"][name]
    if contexts["current"] == name:
        contexts["current"] = None
    _write(contexts)
    say(f"{name} is forgotten")


def _secret(told: str) -> str:
    """Never on the command line itself, where every user of the machine could read it."""
    if told != "-" and not told.startswith("@"):
        raise errors.BadRequest(
            "others can read a command line: give the key by --token - or --token @FILE"
        )
    return secret(told.removeprefix("@"))


def _read() -> dict[str, Any]:
    path = file()
    try:
        if path.stat().st_mode & 0o077:
            say(f"queen: others can read {path}: chmod 600 it")
        contexts: Any = json.loads(path.read_text("utf-8"))
        return {"current": contexts["current"], "contexts": dict(contexts["contexts"])}
    except FileNotFoundError:
        return {"current": None, "contexts": {}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.BadSettings(f"cannot read {path}: {error}") from error


def _write(contexts: dict[str, Any]) -> None:
    """Whole or not at all, and never readable to others, not even for a moment."""
    path = file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix="contexts-")  # Of mode 0600.
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as text:
            json.dump(contexts, text, indent=2)
            text.write("\n")
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
