"""A history written by hand, and its dump."""

import base64
import hashlib
import itertools
import json
from collections.abc import Callable
from typing import Any

LEASE = 10
SECOND = 1_000_000_000


class Story:
    """
    A history written by hand, and its dump.

    Partitions 1 and 2 belong to the ordered queue, and 3 to the unordered one. Group "a" reads them
    all.
    """

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.messages: dict[int, list[list[tuple[bytes, dict[str, Any]]]]] = {1: [], 2: [], 3: []}
        """Maps a partition ID to segments of payloads and extras."""
        self.created: dict[tuple[int, int], int] = {}
        self.positions = {1: 0, 2: 0, 3: 0}
        self.deliveries: list[list[Any]] = []
        self._numbers = itertools.count()
        self.t = 0

    def call(
        self, op: str, args: dict[str, Any], outcome: str, result: object = None, code: str = ""
    ) -> dict[str, Any]:
        """Append both lines of a call. Returns the second one, so that tests can damage it."""
        seq = next(self._numbers)
        self.t += SECOND
        self.lines.append(
            {"e": "inv", "proc": "x", "seq": seq, "op": op, "t": self.t, "args": args}
        )
        self.t += SECOND
        ret = {"e": "ret", "proc": "x", "seq": seq, "t": self.t, "outcome": outcome}
        self.lines.append(ret | ({"code": code} if code else {"result": result}))
        return self.lines[-1]

    def push(
        self,
        partition_id: int,
        *keys: str,
        outcome: str = "ok",
        is_stored: bool = True,
        has_ids: bool = False,
        producer: str | None = None,
        sequence: int | None = None,
        is_replayed: bool = False,
        code: str = "",
    ) -> dict[str, Any]:
        items = [
            {
                "key": key,
                "partition": f"p{partition_id}",
                "sha": hashlib.sha256(payload(key)).hexdigest(),
                "tx": f"tx-{key}" if has_ids else None,
            }
            for key in keys
        ]
        status = "queued"
        if is_stored:
            extra = [{"transactionId": item["tx"]} if has_ids else {} for item in items]
            self.created[partition_id, self.next(partition_id)] = self.t
            self.messages[partition_id].append(
                [(payload(key), each) for key, each in zip(keys, extra, strict=True)]
            )
        elif has_ids:
            status = "duplicate"
        answers = [
            {"status": status, "partition_id": partition_id, "offset": self.offset(key), "id": "x"}
            for key in keys
        ]
        return self.call(
            "push",
            {
                "queue": QUEUE[partition_id],
                "producer": producer,
                "sequence": sequence,
                "items": items,
            },
            outcome,
            {"is_replayed": is_replayed, "items": answers},
            code,
        )

    def pop(self, partition_id: int, *offsets: int, lease: str, attempt: int = 1) -> dict[str, Any]:
        keys = self.keys(partition_id)
        messages = [
            {
                "offset": offset,
                "id": "x",
                "key": keys[offset],
                "sha": hashlib.sha256(payload(keys[offset])).hexdigest(),
            }
            for offset in offsets
        ]
        delivery = {
            "partition_id": partition_id,
            "lease_id": lease,
            "until": self.t // 1_000 + LEASE * 1_000_000,
            "lease_seconds": LEASE,
            "attempt": attempt,
            "messages": messages,
        }
        args = {"queue": QUEUE[partition_id], "group": "a"}
        return self.call("pop", args, "ok", {"deliveries": [delivery]})

    def ack(self, lease: str, *offsets: int, outcome: str = "ok", code: str = "") -> dict[str, Any]:
        args = {"lease_id": lease, "offsets": list(offsets) or None}
        return self.call("ack", args, outcome, {"settled": 1}, code)

    def nack(self, lease: str, offset: int) -> dict[str, Any]:
        return self.call("nack", {"lease_id": lease, "offsets": [offset]}, "ok", {})

    def crash(self) -> None:
        for phase in ("begin", "end"):
            self.t += SECOND
            self.lines.append(
                {"e": "fault", "t": self.t, "id": f"F{self.t}", "target": "pg", "phase": phase}
            )
        self.lines[-1]["id"] = self.lines[-2]["id"]

    def lose_a_claim(self, partition_id: int) -> None:
        """A pop waits while the server's connection is lost, and then returns no message."""
        fault = {"e": "fault", "id": f"F{self.t}", "target": "net"}
        self.lines.append(fault | {"t": self.t + 1, "phase": "begin"})
        self.call("pop", {"queue": QUEUE[partition_id], "group": "a"}, "ok", {"deliveries": []})
        self.lines.append(fault | {"t": self.t - 1, "phase": "end"})

    def wait(self) -> None:
        """Wait until every lease has expired."""
        self.t += LEASE * SECOND

    def keys(self, partition_id: int) -> list[str]:
        return [json.loads(m)["key"] for s in self.messages[partition_id] for m, _ in s]

    def next(self, partition_id: int) -> int:
        return sum(map(len, self.messages[partition_id]))

    def offset(self, key: str) -> int | None:
        for partition_id in self.messages:
            keys = self.keys(partition_id)
            if key in keys:
                return keys.index(key)
        return None

    def dump(self) -> dict[str, Any]:
        segments: list[list[Any]] = []
        for partition_id, parts in self.messages.items():
            base = 0
            for part in parts:
                payloads = [each for each, _ in part]
                extras = [json.dumps(extra).encode() if extra else b"" for _, extra in part]
                segments.append(
                    [
                        partition_id,
                        base,
                        len(part),
                        self.created.get((partition_id, base), 0),
                        encoded(b"".join(payloads)),
                        encoded(ends(payloads)),
                        encoded(ends(extras) + b"".join(extras)) if any(extras) else None,
                    ]
                )
                base += len(part)
        return {
            "queues": {"ordered": True, "unordered": False},
            "partitions": {id_: [queue, f"p{id_}"] for id_, queue in QUEUE.items()},
            "groups": [["ordered", "a"], ["unordered", "a"]],
            "segments": segments,
            "positions": [
                [id_, queue, "a", self.next(id_) + self.positions[id_]]
                for id_, queue in QUEUE.items()
            ],
            "deliveries": self.deliveries,
        }


QUEUE = {1: "ordered", 2: "ordered", 3: "unordered"}


def payload(key: str) -> bytes:
    return json.dumps({"key": key, "pad": key * 3}).encode()


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def ends(values: list[bytes]) -> bytes:
    positions = itertools.accumulate(map(len, values), initial=0)
    return b"".join(position.to_bytes(4, "little") for position in positions)


class Told(Story):
    """The good history, in which each kind of event happens once. Its lines have names."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = self.push(1, "a", "b", "c")
        self.second = self.push(1, "d")
        self.refused = self.push(2, "refused", outcome="fail", is_stored=False, code="overloaded")
        self.unknown = self.push(2, "e", "f", has_ids=True, outcome="info")
        self.again = self.push(2, "e", "f", has_ids=True, is_stored=False)
        self.push(3, "g", producer="s", sequence=1)
        self.push(3, "h", "i", producer="s", sequence=2, outcome="info")
        self.replay = self.push(
            3, "h", "i", producer="s", sequence=2, is_stored=False, is_replayed=True
        )
        self.stale = self.push(
            3,
            "g",
            producer="s",
            sequence=1,
            is_stored=False,
            outcome="fail",
            code="sequence_stale",
        )
        # A batch that is acked as a whole, and the messages after it.
        self.first_pop = self.pop(1, 0, 1, 2, lease="0.1.aa")
        self.first_ack = self.ack("0.1.aa")
        self.next_pop = self.pop(1, 3, lease="0.2.bb")
        self.ack("0.2.bb")
        # A failure: its message is redelivered by itself, one attempt later.
        self.failed_pop = self.pop(2, 0, 1, lease="0.3.cc")
        self.failure = self.nack("0.3.cc", 0)
        self.retried = self.pop(2, 0, lease="0.4.dd", attempt=2)
        self.ack("0.4.dd")
        self.neighbour = self.pop(2, 1, lease="0.5.ee")
        # Its lease expires, and its late ack is rejected.
        self.wait()
        self.redelivered = self.pop(2, 1, lease="0.6.ff", attempt=2)
        self.late = self.ack("0.5.ee", outcome="fail", code="lease_lost")
        self.ack("0.6.ff", 1)
        # Two deliveries on the unordered queue. A crash loses one, and its ID is reused.
        self.one = self.pop(3, 0, lease="0.7.gg")
        self.other = self.pop(3, 1, 2, lease="0.8.hh")
        self.ack("0.7.gg")
        self.crash()
        self.forgotten = self.pop(3, 1, 2, lease="0.8.ii")
        self.last_ack = self.ack("0.8.ii")

    def given(self, pop: dict[str, Any]) -> dict[str, Any]:
        return pop["result"]["deliveries"][0]

    def remove(self, ret: dict[str, Any]) -> None:
        self.lines = [line for line in self.lines if line.get("seq") != ret["seq"]]

    def answer(self, ret: dict[str, Any]) -> None:
        """Turn a rejected call into a successful one."""
        nowhere = {"status": "queued", "partition_id": None, "offset": None, "id": None}
        ret |= {"outcome": "ok", "result": {"settled": 1, "items": [nowhere]}, "code": None}

    def at(self, ret: dict[str, Any], insert: Callable[[], object]) -> None:
        """Insert an event right after a call."""
        where, kept = self.lines.index(ret) + 1, self.t
        behind = self.lines[where:]
        del self.lines[where:]
        self.t = ret["t"] + 1
        insert()
        shift = self.t - ret["t"]
        for line in behind:
            line["t"] += shift
        self.lines += behind
        self.t = kept + shift
