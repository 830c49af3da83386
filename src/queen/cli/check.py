"""Health, version, errors: is it there, and what does this mean."""

import sys
import time
from importlib.metadata import version as version_of
from typing import Annotated, Any

import typer

from queen import errors
from queen.cli.output import Format, say, show_one
from queen.cli.remote import Output, Server


def health(
    wait: Annotated[float | None, typer.Option(help="Try for so many seconds.")] = None,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Ask a server how it is: 0 well, 2 not.

    Example: queen health --wait 30
    """
    import json
    import urllib.error
    import urllib.request

    url = (server or "http://localhost:6632") + "/health"
    deadline = time.monotonic() + (wait or 0)
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                show_one(json.load(answer), output)
            return
        except urllib.error.HTTPError as error:
            problem: Any = json.load(error)
            reason = str(problem.get("database", error))
        except (OSError, ValueError) as error:
            reason = str(error)
        if time.monotonic() >= deadline:
            say(f"queen: {url}: {reason}")
            raise typer.Exit(2)
        time.sleep(0.5)


def version() -> None:
    """
    Print the release.

    Example: queen version
    """
    print(version_of("queenmq"))


def explain(
    code: Annotated[str, typer.Argument(help="As in an answer: lease_lost.")],
) -> None:
    """
    Say what an error code means and what to do.

    Example: queen errors lease_lost
    """
    error = errors.of_code(code)
    if error is None:
        print(f"queen: there is no error code {code}", file=sys.stderr)
        raise typer.Exit(3)
    family = "repeat it later" if issubclass(error, errors.ServiceError) else "change the request"
    if issubclass(error, errors.OutcomeUnknown):
        family = "repeat it only if it is idempotent"
    applied = {False: "nothing was applied", None: "perhaps applied", True: "applied"}
    print(f"{code} (HTTP {error.http_status}): {error.__doc__}")
    print(f"{applied[error.applied]}; {family}")
