"""`queen health`, `version`, `errors`: check a server, and explain error codes."""

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from queen import errors
from queen.cli.support.client import Output, Server
from queen.cli.support.output import Format, say, show, show_one

if TYPE_CHECKING:
    from ssl import SSLContext

_WELL, _WARNING, _CRITICAL = 0, 1, 2


def health(
    wait: Annotated[str | None, typer.Option(help="Retry for this long: 30s, 5m.")] = None,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Check the health of a server. Wait for it with --wait.

    Exit codes: 0 ok, 1 accepts no new work, 2 unavailable or without its database.

    Example: queen health --wait 30s
    """
    from queen.cli.support.contexts import chosen
    from queen.client.durations import seconds_of
    from queen.client.transport.tls import context_of

    where = chosen(server)
    tls = context_of(*where.tls)
    seconds = 0.0 if wait is None else seconds_of(float(wait) if wait.isdecimal() else wait)
    deadline = time.monotonic() + seconds
    while True:
        asked = [_ask(url, where.token, tls) for url in where.urls]
        worst = max(code for code, _ in asked)
        if worst == _WELL or time.monotonic() >= deadline:
            break
        time.sleep(0.25)
    for _, answer in asked:
        if "reason" in answer:
            say(f"queen: {answer['server']}: {answer['reason']}")
    rows = [answer for _, answer in asked if "reason" not in answer]
    if len(asked) == 1 and rows:
        show_one(rows[0], output)
    elif rows:
        show(rows, ["server", "status", "ready", "database", "version", "uptimeSeconds"], output)
    raise typer.Exit(worst)


def _ask(url: str, token: str | None, tls: "SSLContext | None") -> tuple[int, dict[str, Any]]:
    """Return an exit code and the server's health report."""
    try:
        status, found = _get(f"{url}/health", token, tls)
        ready, _ = _get(f"{url}/readyz", token, tls)
    except (OSError, ValueError) as error:
        return _CRITICAL, {"server": url, "reason": str(error)}
    answer: dict[str, Any] = {"server": url, **found, "ready": ready == 200}
    if status != 200:
        return _CRITICAL, answer
    return (_WELL if ready == 200 else _WARNING), answer


def _get(url: str, token: str | None, tls: "SSLContext | None") -> tuple[int, dict[str, Any]]:
    import urllib.error
    import urllib.request

    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=5, context=tls
        ) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def version() -> None:
    """
    Print the release.

    Example: queen version
    """
    print(version_here())


def version_here() -> str:
    """The release of this command."""
    from importlib.metadata import version as version_of

    return version_of("queenmq")


def explain(
    code: Annotated[
        str | None, typer.Argument(help="Such as lease_lost. Default: list all codes.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Explain an error code: its meaning and what to do.

    Example: queen errors lease_lost
    """
    if code is None:
        rows = [_row(each) for _, each in sorted(errors.every().items())]
        show(rows, ["code", "status", "meaning"], output)
        return
    error = errors.of_code(code)
    if error is None:
        from difflib import get_close_matches

        near = get_close_matches(code, list(errors.every()), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise errors.NotFound(f"error code {code} does not exist{hint}")
    row = _row(error)
    if output is not Format.TABLE:
        show_one(row, output)
        return
    status = "" if error.is_local else f" (HTTP {error.http_status})"
    print(f"{code}{status}: {error.default_message}")
    if row["applied"] is not None:
        print(f"Effect: {row['applied']}")
    print(f"What to do: {error.remedy}")


def _row(error: type[errors.QueenError]) -> dict[str, Any]:
    return {
        "code": error.code,
        "status": None if error.is_local else error.http_status,
        "meaning": error.default_message,
        "applied": _effect(error),
        "advice": error.remedy,
    }


def _effect(error: type[errors.QueenError]) -> str | None:
    """The effect of the request; None for errors that don't concern one request."""
    if error.is_local and issubclass(error, errors.RequestError):
        return None
    if issubclass(error, errors.ApiError):
        return "the request was not applied"
    if issubclass(error, errors.OutcomeUnknown):
        return "the request may have been applied"
    return None
