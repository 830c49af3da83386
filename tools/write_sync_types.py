"""Write the types of `SyncQueen` in `client/sync.pyi`: those of `Queen`, without awaiting."""

import ast
import subprocess
import sys
from pathlib import Path

from queen.client import sync
from queen.client.admin.admin import Admin
from queen.client.admin.dead_letters import DeadLetters
from queen.client.client import Queen
from queen.client.consume.consumer import Consumption
from queen.client.message import Message
from queen.client.push.buffered import Buffered
from queen.client.queue import BufferedQueue, Queue
from queen.client.transaction import Transaction

CLIENT = Path(__file__).parents[1] / "src" / "queen" / "client"
STUB = CLIENT / "sync.pyi"
HEAD = """\
# Written by `python -m tools.write_sync_types` from the classes that are awaited: change those.
# ruff: noqa: ANN401 - where those have Any, for a reason that stands there, so has this
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from threading import Event
from typing import Any, Generic, Literal, Self, overload

from queen.client.config import Config
from queen.client.durations import Duration
from queen.client.transport.base import Transport
from queen.wire import access as _access
from queen.wire import analytics as _analytics
from queen.wire import resources as _resources
from queen.wire.messages import Acknowledged, AckResult, Pushed, PushItem
from queen.wire.options import Configured, ConfigureRequest, QueueConfiguration, QueueOptions
from queen.wire.transactions import AdvanceOperation, TransactionResponse
from typing_extensions import TypeVar

T = TypeVar("T", default=Any)
H = TypeVar("H", bound=Callable[..., Any])
Settleable = Mapping[str, Any] | str
"""
CLASSES: list[tuple[str, str, list[type]]] = [
    ("SyncQueen", "", [sync.SyncQueen, Queen]),
    ("SyncQueue", "Generic[T]", [Queue]),
    ("SyncBufferedQueue", "SyncQueue[T], Generic[T]", [BufferedQueue]),
    ("SyncMessage", "Mapping[str, Any], Generic[T]", [Message]),
    ("SyncConsumption", "", [Consumption]),
    ("SyncBuffered", "Sequence[Pushed]", [Buffered]),
    ("SyncTransaction", "", [Transaction]),
    ("SyncDeadLetters", "", [DeadLetters]),
    ("SyncAdmin", "", [Admin]),
]
"""Each class with the classes whose methods it has, including their bases."""
FIELDS = {
    "SyncQueen": ["config: Config"],
    "SyncQueue": ["name: str | None"],
    "SyncMessage": ["is_lost: bool", "is_settled: bool", "is_delivery_over: bool"],
    "SyncBuffered": [
        "@overload\ndef __getitem__(self, index: int) -> Pushed: ...",
        "@overload\ndef __getitem__(self, index: slice) -> Sequence[Pushed]: ...",
        "def __len__(self) -> int: ...",
    ],
}
SPECIAL = {"__init__", "__enter__", "__exit__", "__getitem__", "__iter__", "__len__", "__hash__"}
PLUMBING = {
    "acknowledgment", "after_fork", "at_exit", "codec", "complete", "dependency", "done", "fail",
    "lifespan", "pop_request", "producers", "rebind", "send", "warn_of_loss",
}  # fmt: skip
"""Internal methods of the SDK, and methods that need an event loop."""
NAMES = {
    "Admin": "SyncAdmin",
    "Buffered": "SyncBuffered",
    "BufferedQueue": "SyncBufferedQueue",
    "Consumption": "SyncConsumption",
    "DeadLetters": "SyncDeadLetters",
    "Message": "SyncMessage",
    "Queue": "SyncQueue",
    "Signal": "Event",
    "Transaction": "SyncTransaction",
    "AsyncIterator": "Iterator",
    "AsyncGenerator": "AbstractContextManager",
}
WIRES = {
    "admin.admin": "_resources",
    "admin.analytics": "_analytics",
    "admin.schedules": "_resources",
    "admin.shards": "_resources",
    "admin.tokens": "_access",
}
"""Aliases, because methods have the same names."""
DECORATORS = {"overload", "property", "classmethod"}


class Waited(ast.NodeTransformer):
    """Renames annotations to the synchronous classes."""

    def __init__(self, module: str) -> None:
        self._module = module

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id == "wire":
            return ast.Name(WIRES[self._module])
        return ast.Name(NAMES.get(node.id, node.id))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        is_literal = isinstance(node.value, ast.Name) and node.value.id == "Literal"
        return node if is_literal else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str):
            return self.visit(ast.parse(node.value, mode="eval").body)
        return node


def declared(function: ast.FunctionDef | ast.AsyncFunctionDef, module: str) -> ast.FunctionDef:
    """Return a method as a stub."""
    waited = Waited(module)
    arguments = function.args
    for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        each.annotation = each.annotation and waited.visit(each.annotation)
    for each in (arguments.vararg, arguments.kwarg):
        if each is not None:
            each.annotation = each.annotation and waited.visit(each.annotation)
    names = {each.id for each in function.decorator_list if isinstance(each, ast.Name)}
    kept = sorted(names & DECORATORS) + (["property"] if "cached_property" in names else [])
    text = ast.get_docstring(function)
    body: list[ast.stmt] = [ast.Expr(ast.Constant(...))]
    if text is not None:
        text = text.replace("await\nresult", "\nresult").replace("await ", "").replace("async ", "")
        body = [ast.Expr(ast.Constant(text.partition("\n\n")[0]))]
    return ast.FunctionDef(
        name=function.name,
        args=arguments,
        body=body,
        decorator_list=[ast.Name(name) for name in kept],
        returns=function.returns and waited.visit(function.returns),
        type_params=[],  # pyright: ignore[reportCallIssue] - known from Python 3.12 on
    )


def methods(module: str, name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(CLIENT.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8"))
    (found,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    return [each for each in found.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]


def is_shown(name: str, class_: str, module: str) -> bool:
    if name == "__init__":
        return module == "session"
    if name in SPECIAL:
        return class_ in ("SyncQueen", "SyncMessage")
    # Only its buffer calls this method of a buffered push.
    is_told = name == "settle" and class_ == "SyncBuffered"
    return not (name.startswith("_") or name in PLUMBING or is_told)


def is_overload(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        isinstance(each, ast.Name) and each.id == "overload" for each in function.decorator_list
    )


def written_in(class_: type, stub: str) -> list[tuple[str, str]]:
    """Return module and name of a class and its Queen bases, except those of other stubs."""
    others = {each for name, _, classes in CLASSES if name != stub for each in classes}
    return [
        (each.__module__.removeprefix("queen.client."), each.__name__)
        for each in class_.__mro__
        if each.__module__.startswith("queen.client.") and each not in others
    ]


def class_of(name: str, bases: str, classes: list[type]) -> str:
    """Return a class with the methods of several. The first definition wins."""
    parts = list(FIELDS.get(name, []))
    seen: set[str] = set()
    sources = dict.fromkeys(source for each in classes for source in written_in(each, name))
    for module, source in sources:
        found = [each for each in methods(module, source) if is_shown(each.name, name, module)]
        overloaded = {each.name for each in found if is_overload(each)}
        for each in found:
            if each.name not in seen and (each.name not in overloaded or is_overload(each)):
                parts.append(ast.unparse(ast.fix_missing_locations(declared(each, module))))
        seen |= {each.name for each in found}
    head = f"class {name}({bases}):" if bases else f"class {name}:"
    return "\n".join(
        [head, *("    " + line for each in parts or ["..."] for line in each.splitlines())]
    )


def stub() -> str:
    """Return the complete file, formatted."""
    text = "\n\n".join([HEAD, *(class_of(*each) for each in CLASSES)]) + "\n"
    for rule in (["check", "--select", "I", "--fix-only", "--quiet"], ["format"]):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *rule, "--stdin-filename", STUB, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=CLIENT.parents[2],
        ).stdout
    return text


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
