"""Every error has a unique code, and a SQLSTATE belongs to at most one error."""

import re

import msgspec
import pytest

from queen import errors
from queen.settings import Settings
from tests.cli.tree import COMMANDS


def tree(root: type[errors.QueenError]) -> list[type[errors.QueenError]]:
    return [root, *(each for branch in root.__subclasses__() for each in tree(branch))]


@pytest.mark.parametrize(
    ("sqlstate", "error"),
    [
        ("QN001", errors.QueueNotFound),
        ("QN002", errors.LeaseLost),
        ("QN003", errors.GroupNotFound),
        ("QN004", errors.PartitionNotFound),
        ("QN005", errors.SubscriptionConflict),
        ("QN006", errors.InvalidOption),
        ("QN007", errors.VersionMismatch),
        ("QN009", errors.SequenceStale),
        ("QN010", errors.AlreadySettled),
        ("QN016", errors.DutyLost),
        ("QN018", errors.SlotMoved),
        ("23514", errors.InvalidOption),
        ("40001", errors.Overloaded),
        ("40P01", errors.Overloaded),
        ("55P03", errors.Overloaded),
        ("57014", errors.Overloaded),
        ("53100", errors.DatabaseUnavailable),
        ("53300", errors.DatabaseUnavailable),
        ("25006", errors.DatabaseUnavailable),
        ("08006", errors.OutcomeUnknown),
        ("08P01", errors.OutcomeUnknown),
        ("57P01", errors.OutcomeUnknown),
    ],
)
def test_a_sqlstate_maps_to_its_error(sqlstate: str, error: type[errors.QueenError]) -> None:
    assert errors.of_sqlstate(sqlstate) is error


def test_the_longest_prefix_of_a_sqlstate_wins() -> None:
    assert errors.of_sqlstate("57P03") is errors.DatabaseUnavailable
    assert errors.of_sqlstate("57P02") is errors.OutcomeUnknown


@pytest.mark.parametrize("sqlstate", ["", "42P01", "22021", "XX000", "QN999", "0"])
def test_other_sqlstates_map_to_no_error(sqlstate: str) -> None:
    assert errors.of_sqlstate(sqlstate) is None


def test_sqlstates_are_unique() -> None:
    states = [
        state for error in tree(errors.QueenError) for state in vars(error).get("sqlstates", ())
    ]

    assert len(states) == len(set(states))


def test_a_code_maps_back_to_its_error() -> None:
    for code in (
        "invalid_item",
        "payload_too_large",
        "queue_full",
        "queue_not_found",
        "lease_lost",
    ):
        error = errors.of_code(code)
        assert error is not None
        assert error.code == code
    assert errors.of_code("no such code") is None


def test_the_base_class_decides_whether_a_request_was_applied() -> None:
    for error in tree(errors.RequestError):
        assert error.applied is False
        assert 400 <= error.http_status < 500
    for error in tree(errors.ServiceError):
        assert error.applied is False
        assert error.http_status in (408, 429, 503)
    assert errors.OutcomeUnknown.applied is None


def test_the_error_tree_in_the_docstring_is_complete() -> None:
    drawing = errors.__doc__ or ""

    for error in tree(errors.QueenError):
        assert error.__name__ in drawing
        assert error.__doc__


def test_every_error_has_its_own_text() -> None:
    for error in tree(errors.QueenError):
        assert error.default_message.endswith(".")
        assert "default_message" in vars(error), error


def test_every_error_has_its_own_remedy() -> None:
    for error in tree(errors.QueenError):
        assert error.remedy.endswith("."), error
        assert "remedy" in vars(error), error


def test_a_remedy_names_existing_commands_and_settings() -> None:
    remedies = " ".join(error.remedy for error in tree(errors.QueenError))
    commands = {tuple(each.split()) for each in re.findall(r"`queen ([a-z -]+)`", remedies)}
    settings = set(re.findall(r"\b[A-Z]+_[A-Z_]+\b", remedies))

    assert commands
    assert commands <= set(COMMANDS)
    assert settings
    assert settings <= set(msgspec.to_builtins(Settings()))


def test_a_remedy_does_not_tell_to_repeat_a_request_that_cannot_succeed() -> None:
    for error in (errors.LeaseLost, errors.AlreadySettled, errors.DutyLost):
        assert re.search(r"[Dd]on't", error.remedy)
    for error in (errors.OutcomeUnknown, errors.ConnectionLost):
        assert "only if it is idempotent" in error.remedy
    assert "Retries fail" in errors.EncryptionUnavailable.remedy
