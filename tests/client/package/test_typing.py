"""Strict type checks of a user's code."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from queen import Queen
from queen.client.admin.admin import Admin
from tests.support.server import SOURCE
from tools import write_sync_types

AWAITED = """
from typing import Any, assert_type

from queen import Message, Queen, Queue
from queen.client.push.buffered import Buffered
from queen.wire.messages import Pushed

class Order:
    id: int

queen = Queen("http://localhost:6632")
orders = queen.queue("orders", type=Order)
assert_type(orders.group("billing").batch(3), Queue[Order])

@orders.handler
async def bill(message: Message[Order]) -> None:
    assert_type(message.data, Order)

async def untyped(message: Message) -> None:
    assert_type(message, Message[Any])
    print(message.data["id"], message.data.whatever)

def many(queue: Queue) -> Queue:
    return queue.batch(10)

async def main() -> None:
    async with queen:
        assert_type(await orders.push([{"data": Order()}]), list[Pushed])
        assert_type(await orders.buffer().partition("a").push({"data": Order()}), Buffered)
        assert_type(await orders.pop(), list[Message[Order]])
        await queen.queue("orders").consume(untyped)
        await orders.consume(bill)
        async for each in queen.admin.queues():
            print(each.name)
"""

PLAIN = """
from typing import Any, assert_type

from queen import BatchError, SyncMessage, SyncQueen, SyncQueue
from queen.wire.messages import Pushed

class Order:
    id: int

queen = SyncQueen("http://localhost:6632", retry_attempts=1)
orders = queen.queue("orders", type=Order)
assert_type(orders.group("billing").batch(3), SyncQueue[Order])

@orders.handler
def bill(message: SyncMessage[Order]) -> None:
    assert_type(message.data, Order)
    assert_type(message.ack(), None)
    print(message["transactionId"], message.attempt + 1, message.is_settled)

def untyped(message: SyncMessage) -> None:
    assert_type(message, SyncMessage[Any])
    print(message.data["id"])

def some(messages: list[SyncMessage[Order]]) -> None:
    raise BatchError({message: "no" for message in messages})

with queen:
    assert_type(orders.push([{"data": Order()}]), list[Pushed])
    result = orders.buffer(message_count=9).partition("a").push({"data": Order()})
    assert_type(result.stored(), None)
    assert_type(result[0], Pushed)
    messages = orders.batch(3).pop()
    assert_type(messages, list[SyncMessage[Order]])
    queen.ack(messages)
    queen.transaction().ack(messages[0]).queue("out").push({"data": 1}).commit()
    with orders.receive() as message:
        assert_type(message.data, Order)
    assert_type(orders.dlq().limit(3).get(), dict[str, Any])
    print([each.name for each in queen.admin.queues()], queen.admin.me().permissions)
    orders.consume(bill)
    orders.batch(10).consume(some)
    queen.queue("x").consume(untyped)
    orders.start(bill).stop(now=True)
    queen.run(handle_signals=True)
"""

WRONG = """
from queen import Message, SyncMessage, SyncQueen

queen = SyncQueen()
queen.queue("orders", type=int).pop()[0].data.upper()
queen.queue("orders").bach(3)

def handle(message: Message[int]) -> None: ...

queen.queue("orders", type=int).consume(handle)
"""


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """The lines with errors that pyright reports in strict mode, by file of a user."""
    folder = tmp_path_factory.mktemp("user")
    for name, code in {"awaited": AWAITED, "plain": PLAIN, "wrong": WRONG}.items():
        (folder / f"{name}.py").write_text(code)
    config = {"typeCheckingMode": "strict", "extraPaths": [str(SOURCE)], "include": ["*.py"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson"),
            *("--pythonpath", sys.executable, "--project", folder),
        ],
        capture_output=True,
        text=True,
    )
    lines: dict[str, list[int]] = {"awaited": [], "plain": [], "wrong": []}
    for each in json.loads(answer.stdout)["generalDiagnostics"]:
        lines[Path(each["file"]).stem].append(each["range"]["start"]["line"])
    return lines


def test_async_code_is_typed(faults: dict[str, list[int]]) -> None:
    assert faults["awaited"] == []


def test_sync_code_is_typed(faults: dict[str, list[int]]) -> None:
    assert faults["plain"] == []


def test_mistakes_in_sync_code_are_found(faults: dict[str, list[int]]) -> None:
    assert {4, 5, 9} <= {*faults["wrong"]}


def test_the_sync_types_match_the_async_classes() -> None:
    assert write_sync_types.STUB.read_text("utf-8") == write_sync_types.stub()


@pytest.mark.parametrize(("awaited", "plain"), [(Queen, "SyncQueen"), (Admin, "SyncAdmin")])
def test_every_method_has_sync_types(awaited: type, plain: str) -> None:
    tree = ast.parse(write_sync_types.STUB.read_text("utf-8"))
    (stub,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == plain)
    typed = {each.name for each in stub.body if isinstance(each, ast.FunctionDef)}
    methods = {
        name
        for name, each in inspect.getmembers(awaited, inspect.isfunction)
        if not name.startswith("_") and each.__module__.startswith("queen.")
    }
    assert methods - typed - write_sync_types.PLUMBING == set()
