"""Every route and error code must occur in a test over HTTP."""

from collections.abc import Iterator
from typing import Final

import pytest

from queen import errors
from queen.server.http.router import Router
from queen.server.routes import iceberg
from queen.server.routes.table import ROUTES

_OF_OTHERS: Final = {
    # Base classes, of which only subclasses are returned.
    *("refused", "conflict"),
    *(code for code, error in errors.every().items() if error.is_local),
}
"""Codes that no server returns."""
_ROUTER: Final = Router((*ROUTES, *iceberg.ROUTES))
_seen: Final[set[str]] = set()


def note_answer(method: str, raw_path: str, status: int) -> None:
    """Record a response. Only successful ones count for their route."""
    if status < 400 and method != "OPTIONS":
        route, _ = _ROUTER.find(method, raw_path.encode())
        _seen.add(f"{route.method} {route.path}")


def note_code(code: object) -> None:
    """Record the code of a problem."""
    if isinstance(code, str):
        _seen.add(code)


def _tree(root: type[errors.QueenError]) -> Iterator[type[errors.QueenError]]:
    yield root
    for branch in root.__subclasses__():
        yield from _tree(branch)


def missing() -> list[str]:
    """Routes and codes that no test covered."""
    codes = {error.code for error in _tree(errors.QueenError)} - _OF_OTHERS
    routes = {f"{route.method} {route.path}" for route in ROUTES}
    return sorted((codes | routes) - _seen)


class Exercised:
    """The pytest plugin: workers send their records, and the controller checks them."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        output: dict[str, list[str]] = getattr(node, "workeroutput", {})
        _seen.update(output.get("exercised", ()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        config = session.config
        if (output := getattr(config, "workeroutput", None)) is not None:
            output["exercised"] = sorted(_seen)
        elif exitstatus == pytest.ExitCode.OK and _is_whole(config) and missing():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
    ) -> None:
        if exitstatus != pytest.ExitCode.INTERRUPTED and _is_whole(config):
            for name in missing():
                terminalreporter.write_line(f"no test covers this over HTTP: {name}", red=True)


def _is_whole(config: pytest.Config) -> bool:
    """Whether all server tests ran, without a selection by file, name or marker."""
    options = config.option
    asked = {argument.rstrip("/") for argument in config.args}
    return (
        bool(asked & {"tests", "tests/server"})
        and not options.keyword
        and options.markexpr in config.getini("addopts")
        and not options.collectonly
        and not getattr(options, "lf", False)
    )
