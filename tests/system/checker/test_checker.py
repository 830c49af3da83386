"""The checker accepts a good history, and names the broken invariant of each damaged one."""

from collections.abc import Callable

import pytest

from tests.system.checker.checker import Checker
from tests.system.checker.story import LEASE, Told, payload


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
    told.messages[3].append([(payload("unknown"), {})])


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
