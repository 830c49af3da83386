"""Limit the open connections per address."""

from ipaddress import ip_address
from typing import Final

_PREFIX_BITS: Final = 64
"""Length of an IPv6 prefix, because one user has all addresses of a prefix."""


class ConnectionLimits:
    """The open connections of one process, by the address they come from."""

    def __init__(self, most: int) -> None:
        self._most = most
        """0: any number."""
        self._open: dict[str, int] = {}

    def enter(self, client: tuple[str, int] | None) -> bool:
        """Count a new connection; False if its address has too many. `leave` is required anyway."""
        if not self._most or client is None:
            return True
        name = _named(client[0])
        count = self._open[name] = self._open.get(name, 0) + 1
        return count <= self._most

    def leave(self, client: tuple[str, int] | None) -> None:
        """Count a closed connection."""
        if not self._most or client is None:
            return
        name = _named(client[0])
        count = self._open.get(name, 0) - 1
        if count > 0:
            self._open[name] = count
        else:
            self._open.pop(name, None)


def _named(host: str) -> str:
    if ":" not in host:
        return host
    address = ip_address(host.partition("%")[0])
    if address.version == 4:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{int(address) >> (128 - _PREFIX_BITS):x}"
