"""The checker accepts a good history, and names the broken invariant of each damaged one."""

import base64
import hashlib
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.system.checker import Checker

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


def test_a_good_history_passes() -> None:
    told = Told()
    checker = Checker(told.lines, told.dump())

    assert checker.check() == []
    assert checker.counts["kills"] == 1
    assert checker.counts["redelivered"] == 4
    assert checker.counts["unknown_retried_ok"] == 2
    assert checker.counts["replayed"] == 1
    assert checker.counts["duplicates"] == 2
    assert checker.counts["lease_lost"] == 1


def test_a_call_without_a_return_has_an_unknown_outcome() -> None:
    told = Told()
    told.lines = [line for line in told.lines if line is not told.unknown]

    checker = Checker(told.lines, told.dump())
    assert checker.check() == []
    assert checker.counts["push_info"] == 2


def test_a_claim_with_a_lost_response_is_charged_after_its_lease() -> None:
    told = Told()
    told.at(told.first_ack, lambda: (told.lose_a_claim(1), told.wait()))
    told.given(told.next_pop)["attempt"] = 2

    assert Checker(told.lines, told.dump()).check() == []


MUTANTS: dict[str, tuple[str, Callable[[Told], object]]] = {}


def mutant(invariant: str) -> Callable[[Callable[[Told], object]], Callable[[Told], object]]:
    def register(damage: Callable[[Told], object]) -> Callable[[Told], object]:
        MUTANTS[damage.__name__] = (invariant, damage)
        return damage

    return register


@mutant("I1")
def an_acknowledged_message_is_dropped(told: Told) -> None:
    del told.messages[1][-1]
    told.remove(told.next_pop)


@mutant("I1")
def a_message_is_never_delivered(told: Told) -> None:
    told.given(told.next_pop)["messages"].clear()


@mutant("I1")
def a_position_is_behind(told: Told) -> None:
    told.positions[3] = -1


@mutant("I1")
def a_delivery_is_left_over(told: Told) -> None:
    told.deliveries.append([1, "ordered", "a", "{[2,3)}"])


@mutant("I1")
def an_ack_never_came(told: Told) -> None:
    told.remove(told.last_ack)


@mutant("I2")
def a_message_comes_from_nowhere(told: Told) -> None:
    told.messages[3].append([(payload("nobody"), {})])


@mutant("I2")
def a_refused_push_is_stored(told: Told) -> None:
    told.messages[2].append([(payload("refused"), {})])


@mutant("I2")
def a_push_without_identity_is_stored_twice(told: Told) -> None:
    told.messages[1].append([(payload("a"), {})])


@mutant("I3")
def a_stored_payload_is_torn(told: Told) -> None:
    told.messages[1][1][0] = (b'{"key": "d"}', {})


@mutant("I3")
def a_delivered_payload_is_torn(told: Told) -> None:
    told.given(told.next_pop)["messages"][0]["sha"] = "0" * 64


@mutant("I4")
def an_answer_names_another_place(told: Told) -> None:
    told.second["result"]["items"][0]["offset"] = 2


@mutant("I4")
def a_delivery_has_another_message(told: Told) -> None:
    told.given(told.first_pop)["messages"][0] |= {
        key: told.given(told.first_pop)["messages"][1][key] for key in ("key", "sha")
    }


@mutant("I6")
def messages_are_swapped(told: Told) -> None:
    first, last = told.messages[1]
    first[0], last[0] = last[0], first[0]


@mutant("I6")
def a_batch_is_reordered(told: Told) -> None:
    told.messages[1][0].reverse()


@mutant("I6")
def time_runs_backward(told: Told) -> None:
    told.created[1, 3] = told.created[1, 0] - 1


@mutant("I7")
def a_message_overtakes_one_that_is_not_settled(told: Told) -> None:
    told.remove(told.first_ack)
    told.wait()


@mutant("I7")
def a_message_is_skipped(told: Told) -> None:
    del told.given(told.first_pop)["messages"][1]


@mutant("I9")
def two_hold_one_partition(told: Told) -> None:
    told.at(told.first_pop, lambda: told.pop(1, 0, 1, 2, lease="0.91.zz"))


@mutant("I9")
def two_hold_one_message_of_an_unordered_queue(told: Told) -> None:
    told.at(told.one, lambda: told.pop(3, 0, lease="0.91.zz"))


@mutant("I9")
def a_lease_is_cut_short(told: Told) -> None:
    told.given(told.neighbour)["until"] += LEASE * 1_000_000
    told.given(told.neighbour)["lease_seconds"] = 2 * LEASE


@mutant("I10")
def a_stale_ack_is_accepted(told: Told) -> None:
    told.answer(told.late)


@mutant("I10")
def a_token_is_used_twice(told: Told) -> None:
    told.given(told.forgotten)["lease_id"] = "0.9.hh"


@mutant("I10")
def a_lease_is_given_twice(told: Told) -> None:
    told.given(told.forgotten)["lease_id"] = "0.8.hh"


@mutant("I12")
def an_acked_message_comes_again(told: Told) -> None:
    told.wait()
    told.pop(1, 3, lease="0.91.zz", attempt=2)


@mutant("I12")
def a_crash_undoes_an_ack(told: Told) -> None:
    told.crash()
    told.pop(1, 0, 1, 2, lease="0.91.zz")


@mutant("I13")
def an_attempt_is_skipped(told: Told) -> None:
    told.given(told.retried)["attempt"] = 3


@mutant("I13")
def a_failure_is_not_counted(told: Told) -> None:
    told.given(told.retried)["attempt"] = 1


@mutant("I13")
def a_neighbour_is_charged(told: Told) -> None:
    told.given(told.neighbour)["attempt"] = 2


@mutant("I13")
def a_claim_that_was_lost_is_charged_before_its_lease_is_over(told: Told) -> None:
    told.at(told.first_ack, lambda: told.lose_a_claim(1))
    told.given(told.next_pop)["attempt"] = 2


@mutant("I13")
def a_claim_that_was_lost_is_charged_twice(told: Told) -> None:
    told.at(told.first_ack, lambda: (told.lose_a_claim(1), told.wait()))
    told.given(told.next_pop)["attempt"] = 3


@mutant("I13")
def a_claim_that_was_lost_is_charged_while_another_has_the_message(told: Told) -> None:
    told.at(told.neighbour, lambda: told.lose_a_claim(2))
    told.given(told.redelivered)["attempt"] = 3


@mutant("I17")
def a_transaction_id_is_stored_twice(told: Told) -> None:
    told.messages[2].append([(payload("e"), {"transactionId": "tx-e"})])


@mutant("I17")
def a_duplicate_names_another_message(told: Told) -> None:
    told.again["result"]["items"][0]["offset"] = 1


@mutant("I19")
def an_unknown_push_is_stored_by_both_attempts(told: Told) -> None:
    told.messages[3].append([(payload("h"), {}), (payload("i"), {})])


@mutant("I19")
def a_sequence_is_taken_twice(told: Told) -> None:
    told.at(told.replay, lambda: told.push(3, "h", "i", producer="s", sequence=2, is_stored=False))


@mutant("I19")
def a_lower_sequence_is_taken(told: Told) -> None:
    told.answer(told.stale)


@mutant("I20")
def a_push_is_torn(told: Told) -> None:
    del told.messages[3][1][1]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_damaged_history_is_rejected(name: str) -> None:
    invariant, damage = MUTANTS[name]
    told = Told()
    damage(told)

    violations = Checker(told.lines, told.dump()).check()

    assert invariant in {violation.invariant for violation in violations}, violations


@pytest.mark.parametrize("shift", [1, -1], ids=["gap", "overlap"])
def test_a_gap_or_an_overlap_is_rejected(shift: int) -> None:
    told = Told()
    dump = told.dump()
    dump["segments"][1][1] += shift

    violations = Checker(told.lines, dump).check()

    assert "I5" in {violation.invariant for violation in violations}
