"""
Test code that uses Queen with the real server and its SQL, in this process and without a port.

Queen installs a pytest plugin with the fixtures `queen_server`, `queen` and `queen_clock`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queen.testing.helpers import dead_letters, drain, inline, pushed
    from queen.testing.server import QueenClock, QueenServer

_HOMES = {
    "QueenClock": "queen.testing.server",
    "QueenServer": "queen.testing.server",
    "dead_letters": "queen.testing.helpers",
    "drain": "queen.testing.helpers",
    "inline": "queen.testing.helpers",
    "pushed": "queen.testing.helpers",
}

__all__ = ["QueenClock", "QueenServer", "dead_letters", "drain", "inline", "pushed"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of many types
    """Import on first use, because pytest loads the plugin in every run, even without a server."""
    if name not in _HOMES:
        raise AttributeError(f"module 'queen.testing' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
