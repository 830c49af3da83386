"""The client reference is complete, and every call of the original clients has a test."""

import inspect
import re
from pathlib import Path

import pytest

import queen
from queen.client.admin.admin import Admin
from queen.client.admin.dead_letters import DeadLetters
from queen.client.client import Queen
from queen.client.config import Config
from queen.client.consume.consumer import Consumption
from queen.client.message import Message
from queen.client.queue import Queue
from queen.client.transaction import Transaction

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "client.md").read_text("utf-8")
CALLS = (ROOT / "tests" / "client" / "original" / "README.md").read_text("utf-8")
ORIGINAL = [
    "queue",
    "create",
    "config",
    "delete",
    "namespace",
    "task",
    "partition",
    "push",
    "buffer",
    "flush_buffer",
    "flush_all_buffers",
    "get_buffer_stats",
    "pop",
    "batch",
    "wait",
    "timeout_millis",
    "partitions",
    "auto_ack",
    "consume",
    "group",
    "concurrency",
    "limit",
    "idle_millis",
    "renew_lease",
    "each",
    "subscription_mode",
    "subscription_from",
    "ack",
    "renew",
    "transaction",
    "commit",
    "dlq",
    "cursor",
    "from_",
    "to",
    "get",
    "trace",
    "close",
    "on_success",
    "on_error",
]
PLUMBING = {
    "acknowledgment", "after_fork", "codec", "complete", "done", "pop_request", "producers",
    "send", "warn_of_loss", "get", "items", "keys", "values",
}  # fmt: skip
"""Internal methods of the SDK, and those of a mapping."""


def public(kind: type) -> set[str]:
    names = {name for name, _ in inspect.getmembers_static(kind) if not name.startswith("_")}
    fields = {*getattr(kind, "__struct_fields__", ()), *getattr(kind, "__dataclass_fields__", ())}
    return names - fields - PLUMBING


def rows() -> list[tuple[str, str]]:
    (table,) = re.findall(
        r"^\| Call \| Test \|\n\|---\|---\|\n((?:\|.*\n)+)", CALLS, flags=re.MULTILINE
    )
    return re.findall(r"^\| (.*) \| `(tests/\S+)` \|$", table, flags=re.MULTILINE)


def test_every_method_of_earlier_clients_has_an_existing_test() -> None:
    shown = " ".join(name for name, _ in rows())
    assert [name for name in ORIGINAL if not re.search(rf"\b{name}\b", shown)] == []
    for _, test in rows():
        path, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text("utf-8"), test


@pytest.mark.parametrize(
    "kind", [Queen, Queue, Message, Transaction, DeadLetters, Consumption, Admin]
)
def test_every_public_member_is_on_the_page(kind: type) -> None:
    words = set(re.findall(r"\w+", PAGE))
    assert public(kind) - words == set()


def test_every_option_is_on_the_page() -> None:
    assert set(Config.__struct_fields__) - set(re.findall(r"`(\w+)`", PAGE)) == set()


def test_every_exported_name_is_on_the_page_or_an_error() -> None:
    errors = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
    words = set(re.findall(r"\w+", PAGE + errors))
    assert set(queen.__all__) - words == set()
