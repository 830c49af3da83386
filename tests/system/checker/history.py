"""
Read a history and the following dump, without code of the server.

A history is JSON lines: one before each call, one after it, and the faults::

    {"e":"inv","proc":"p1","seq":41,"op":"push","t":NS,"args":{…}}
    {"e":"ret","proc":"p1","seq":41,"t":NS,"outcome":"ok|fail|info","code":"…","result":{…}}
    {"e":"fault","t":NS,"id":"F3","target":"pg","phase":"begin|end"}

``ok`` was applied, ``fail`` was not, ``info`` may have been. A call without its second line may
have been applied too.
"""

import base64
import hashlib
import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]
Place = tuple[int, int]
"""Partition id and offset."""


@dataclass
class Op:
    """One call by one client."""

    proc: str
    name: str
    inv: int
    args: dict[str, Any]
    ret: float = math.inf
    outcome: str = "info"
    code: str | None = None
    result: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def is_possible(self) -> bool:
        """True if it was or may have been applied."""
        return self.outcome != "fail"


@dataclass(frozen=True)
class Fault:
    """The time from the first failure until the database is reachable again."""

    begin: int
    end: float
    target: str = "pg"


@dataclass(frozen=True)
class Stored:
    """One message of the dump."""

    place: Place
    key: str
    sha: str
    transaction_id: str | None
    created_at: int


@dataclass
class Handed:
    """One delivery that a consumer received."""

    pop: Op
    queue: str
    group: str
    partition_id: int
    lease_id: str
    until: int
    granted_at: int
    attempt: int
    messages: list[dict[str, Any]]
    settles: list[Op] = field(default_factory=list[Op])

    @cached_property
    def offsets(self) -> list[int]:
        return [message["offset"] for message in self.messages]

    @cached_property
    def settled_from(self) -> float:
        """Time of the first call to settle it that was or may have been applied."""
        return min((op.inv for op in self.settles if op.is_possible), default=math.inf)

    def covered(self, op: Op) -> list[int]:
        """The offsets that an ack or nack of this delivery covers."""
        named = op.args.get("offsets")
        return self.offsets if named is None else named


def read(lines: Iterable[Line]) -> tuple[list[Op], list[Fault]]:
    """The calls of a history, in the order of their start, and its faults."""
    ops: dict[tuple[str, int], Op] = {}
    begun: dict[str, tuple[int, str]] = {}
    faults: list[Fault] = []
    for line in lines:
        match line["e"]:
            case "inv":
                key = (line["proc"], line["seq"])
                ops[key] = Op(line["proc"], line["op"], line["t"], line["args"])
            case "ret":
                op = ops[line["proc"], line["seq"]]
                op.ret, op.outcome = line["t"], line["outcome"]
                op.code, op.result = line.get("code"), line.get("result") or {}
            case "fault" if line["phase"] == "begin":
                begun[line["id"]] = (line["t"], line["target"])
            case "fault":
                begin, target = begun.pop(line["id"])
                faults.append(Fault(begin, line["t"], target))
            case other:
                raise ValueError(f"a history has no {other!r}")
    faults += [Fault(begin, math.inf, target) for begin, target in begun.values()]
    return (
        sorted(ops.values(), key=lambda op: op.inv),
        sorted(faults, key=lambda fault: fault.begin),
    )


def read_files(paths: Iterable[Path]) -> Iterator[Line]:
    for path in paths:
        with path.open() as file:
            for line in file:
                # The last line of a killed client may be incomplete.
                if line.endswith("\n"):
                    yield json.loads(line)


def stored_messages(dump: Line) -> list[Stored]:
    """The messages in the segments of a dump, decoded by the documented layout."""
    found: list[Stored] = []
    for partition_id, base, count, created_at, body, ends, extras in dump["segments"]:
        payloads = _values(base64.b64decode(body), base64.b64decode(ends), count)
        beside: list[bytes] = [b""] * count
        if extras is not None:
            raw = base64.b64decode(extras)
            beside = _values(raw[4 * (count + 1) :], raw[: 4 * (count + 1)], count)
        for at, (payload, extra) in enumerate(zip(payloads, beside, strict=True)):
            found.append(
                Stored(
                    place=(partition_id, base + at),
                    key=json.loads(payload)["key"],
                    sha=hashlib.sha256(payload).hexdigest(),
                    transaction_id=json.loads(extra).get("transactionId") if extra else None,
                    created_at=created_at,
                )
            )
    return found


def _values(body: bytes, ends: bytes, count: int) -> list[bytes]:
    positions = struct.unpack(f"<{count + 1}i", ends)
    return [body[a:b] for a, b in pairwise(positions)]
