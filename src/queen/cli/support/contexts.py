"""The contexts file: short names for servers, readable only by its owner."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from queen import errors
from queen.cli.support.output import say
from queen.redacted import redacted

DEFAULT_URL = "http://localhost:6632"


class Tls(NamedTuple):
    """TLS files, named as the client's options."""

    ca_file: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None


class Where(NamedTuple):
    """A server with its API key and certificates."""

    urls: list[str]
    token: str | None
    source: str
    tls: Tls = Tls()

    def __repr__(self) -> str:
        return redacted(self, ("token",))


def _file() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "queen" / "contexts.json"


def chosen(server: str | None) -> Where:
    """Return the server to use: from the flag or environment, the context, or this machine."""
    token = os.environ.get("QUEEN_TOKEN")
    tls = Tls(*(os.environ.get(f"QUEEN_{name.upper()}") for name in Tls._fields))
    if server is not None:
        # The API key and certificates of a context are only for that context's server.
        return Where([url.strip() for url in server.split(",")], token, "QUEEN_BASE_URL", tls)
    contexts = read()
    name = os.environ.get("QUEEN_CONTEXT") or contexts["current"]
    if name is None:
        return Where([DEFAULT_URL], token, "default", tls)
    require(contexts, name)
    found = contexts["contexts"][name]
    if tls.client_certificate is None:
        tls = tls._replace(
            client_certificate=found.get("clientCertificate"), client_key=found.get("clientKey")
        )
    tls = tls._replace(ca_file=tls.ca_file or found.get("caFile"))
    return Where(found["servers"], token or found.get("token"), f"context {name}", tls)


def require(contexts: dict[str, Any], name: str) -> None:
    """Raise NotFound if the context does not exist."""
    if name not in contexts["contexts"]:
        raise errors.NotFound(f"context {name} does not exist: see `queen context ls`")


def read() -> dict[str, Any]:
    """Return all contexts and the name of the current one."""
    path = _file()
    try:
        if path.stat().st_mode & 0o077:
            say(f"queen: other users can read {path}: run chmod 600 on it")
        contexts: Any = json.loads(path.read_text("utf-8"))
        return {"current": contexts["current"], "contexts": dict(contexts["contexts"])}
    except FileNotFoundError:
        return {"current": None, "contexts": {}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.BadSettings(f"cannot read {path}: {error}") from error


def write(contexts: dict[str, Any]) -> None:
    """Replace the file atomically. Other users can never read it."""
    path = _file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix="contexts-")  # With mode 0600.
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as text:
            json.dump(contexts, text, indent=2)
            text.write("\n")
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
