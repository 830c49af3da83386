"""Ports for the processes that a test starts."""

import collections
import socket

_KEPT = 64
_reservations: collections.deque[socket.socket] = collections.deque()


def free_port() -> int:
    """
    Return a port that no other process gets before the caller's process listens on it.

    A socket of ours stays bound to it, so the kernel gives it to no other process. One that binds
    with SO_REUSEADDR, as servers do, still can, because ours does not listen.
    """
    reservation = socket.socket()
    reservation.bind(("127.0.0.1", 0))
    # After `bind`, so that the kernel chose a port that no socket had.
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _reservations.append(reservation)
    if len(_reservations) > _KEPT:
        _reservations.popleft().close()
    port: int = reservation.getsockname()[1]
    return port
