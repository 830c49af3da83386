"""Roles, scopes and keys, without a server."""

import fnmatch
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from queen import errors
from queen.server.auth.api_keys import digest_of, id_of, new_key
from queen.server.auth.permissions import ROLES, Caller, Permission, matches
from queen.wire.access import Scope, TokenRequest

NAMES = st.text(alphabet="ab.*", max_size=8)


def caller(*scopes: Scope) -> Caller:
    return Caller(name="c", permissions=ROLES["read-write"], scopes=scopes)


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("orders.*", "orders.eu", True),
        ("orders.*", "orders.", True),
        ("orders.*", "ordersXeu", False),
        ("*.eu", "orders.eu", True),
        ("a*b*c", "aXbYbc", True),
        ("a*b*c", "acb", False),
        ("ab*ba", "aba", False),
        ("*", "", True),
        ("**", "x", True),
        ("[ab]*", "a", False),
        ("[ab]*", "[ab]c", True),
        ("a?c", "abc", False),
        (".*", "abc", False),
        ("a|b", "a", False),
        ("A", "a", False),
    ],
)
def test_a_star_is_the_only_wildcard(pattern: str, name: str, is_match: bool) -> None:
    assert matches(pattern, name) is is_match


@given(NAMES, NAMES.map(lambda name: name.replace("*", "")))
def test_stars_match_like_shell_patterns(pattern: str, name: str) -> None:
    assert matches(pattern, name) == fnmatch.fnmatchcase(name, pattern)


def test_many_stars_are_fast() -> None:
    assert not matches("*a" * 200 + "b", "a" * 5000)


def test_roles_have_the_documented_permissions() -> None:
    table = {
        "admin": "produce consume browse configure operate destroy admin",
        "read-write": "produce consume browse configure operate",
        "read-only": "browse",
        "write-only": "produce",
    }
    assert {role: {*allowed} for role, allowed in ROLES.items()} == {
        role: {*allowed.split()} for role, allowed in table.items()
    }


def test_only_a_namespace_scope_needs_the_namespace() -> None:
    by_name, by_namespace = caller(Scope(queue="a.*")), caller(Scope(namespace="shop*"))
    assert by_name.sees("a.b", None)
    assert by_name.sees("a.b", "anything")
    assert not by_name.sees("b", "shop")
    assert by_namespace.sees("a.b", "shop-eu")
    assert not by_namespace.sees("a.b", None)
    assert not by_namespace.sees("a.b", "")


def test_a_scope_with_queue_and_namespace_needs_both() -> None:
    both = caller(Scope(queue="a", namespace="n"))
    assert both.sees("a", "n")
    assert not both.sees("a", "m")
    assert not both.sees("b", "n")
    assert not both.sees_all_of("n")


def test_unscoped_callers_see_all_and_an_empty_list_of_scopes_nothing() -> None:
    assert Caller(name="c", permissions=frozenset()).sees("any", "")
    assert not caller().sees("any", "")


def test_a_caller_without_the_permission_is_rejected() -> None:
    caller().require(Permission.PRODUCE)
    with pytest.raises(errors.Forbidden):
        caller().require(Permission.ADMIN)


def test_a_key_has_256_random_bits_and_an_id() -> None:
    first, second = new_key(), new_key()
    assert first.text != second.text
    assert id_of(first.text) == first.id
    assert len(bytes.fromhex(first.text.rpartition("_")[2])) == 32
    assert first.digest == digest_of(first.text)


@pytest.mark.parametrize(
    "text",
    ["", "qk_", "qk_zzzzzzzzzzzz_" + "0" * 64, "qk_0123456789ab_" + "0" * 63, "x" * 80,
     "qk_0123456789ab_" + "0" * 64 + "\n", "QK_0123456789ab_" + "0" * 64],
)  # fmt: skip
def test_a_malformed_key_has_no_id(text: str) -> None:
    assert id_of(text) is None


REFUSED: list[dict[str, Any]] = [
    {"name": "k"},
    {"name": "k", "role": "admin", "permissions": ["browse"]},
    {"name": "k", "role": "root"},
    {"name": "k", "permissions": []},
    {"name": "k", "permissions": ["everything"]},
    {"name": "", "role": "admin"},
    {"name": "a\nb", "role": "admin"},
    {"name": "k", "role": "admin", "scopes": []},
    {"name": "k", "role": "admin", "scopes": [{}]},
    {"name": "k", "role": "admin", "scopes": [{"queue": ""}]},
    {"name": "k", "role": "admin", "scopes": [{"topic": "a"}]},
    {"name": "k", "role": "admin", "requestsPerSecond": 0},
    {"name": "k", "role": "admin", "expiresAt": "2030-01-01T00:00:00"},
    {"name": "k", "role": "admin", "expires": "2030-01-01T00:00:00Z"},
]


@pytest.mark.parametrize("told", REFUSED)
def test_a_key_with_missing_or_invalid_fields_is_rejected(told: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(told, TokenRequest)
