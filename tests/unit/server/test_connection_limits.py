"""Connection limits per client address."""

import pytest

from queen.server.http.connection_limits import ConnectionLimits


def test_connections_of_an_address_are_limited_and_closing_one_makes_room() -> None:
    limits = ConnectionLimits(2)
    one, other = ("192.0.2.1", 1), ("192.0.2.2", 1)

    assert [limits.enter(one) for _ in range(3)] == [True, True, False]
    assert limits.enter(other)
    for _ in range(2):
        limits.leave(one)
    assert limits.enter(one)
    assert not limits.enter(one)


@pytest.mark.parametrize(
    ("first", "second", "are_one"),
    [
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_addresses_of_one_network_count_together(first: str, second: str, are_one: bool) -> None:
    limits = ConnectionLimits(1)
    limits.enter((first, 1))

    assert limits.enter((second, 1)) is not are_one


def test_without_a_limit_or_an_address_connections_are_accepted() -> None:
    assert all(ConnectionLimits(0).enter(("192.0.2.1", 1)) for _ in range(3))
    limits = ConnectionLimits(1)
    assert all(limits.enter(None) for _ in range(3))
