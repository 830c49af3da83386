"""Two tests that run at the same time never use the same port."""

import socket

import pytest

from tests.support.ports import free_port


def listening(port: int) -> socket.socket:
    """Listen as servers do."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def test_a_server_can_use_its_port_again_after_a_restart() -> None:
    port = free_port()
    for _ in range(2):
        with listening(port), socket.create_connection(("127.0.0.1", port)):
            pass


def test_no_client_is_connected_before_the_server_listens() -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", free_port()))


def test_no_other_process_gets_the_port() -> None:
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
