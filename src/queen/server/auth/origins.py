"""Browser requests: allowed origins and host names, and response headers."""

import contextlib
import ipaddress
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from queen import errors
from queen.bounded import BoundedDict
from queen.settings import Settings, words

Header = tuple[bytes, bytes]

_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PORTS: Final = {"http": 80, "https": 443}
_MOST_HOSTS: Final = 100
_EXPOSED: Final = b"Queen-Reason, Retry-After, X-Request-Id"
_NO_SNIFF: Final = (b"x-content-type-options", b"nosniff")
_HSTS: Final = (b"strict-transport-security", b"max-age=31536000")

PAGE_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
"""Headers of dashboard pages: no foreign scripts, and no framing."""


def encoded(headers: Iterable[Header]) -> bytes:
    """Encode headers as lines."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def page_headers(origin: str | None = None) -> Mapping[str, str]:
    """Return the headers of a page that may also call another origin."""
    if origin is None:
        return PAGE_HEADERS
    policy = PAGE_HEADERS["Content-Security-Policy"]
    return {
        **PAGE_HEADERS,
        "Content-Security-Policy": f"{policy}; connect-src 'self' {origin}",
    }


class Origins:
    """Distinguishes Queen's own pages from those of other sites, also on loopback."""

    def __init__(self, settings: Settings) -> None:
        origins = words(settings.cors_allowed_origins)
        self._allows_all = "*" in origins
        if self._allows_all and not settings.auth_kinds:
            raise errors.BadSettings(
                "CORS_ALLOWED_ORIGINS=* without authentication would let any web page drain a "
                "queue. List the origins, or set QUEEN_AUTH."
            )
        self._origins = frozenset(_normal(each) for each in origins if each != "*")
        if None in self._origins:
            raise errors.BadSettings(
                "CORS_ALLOWED_ORIGINS must list origins, for example https://a.b"
            )
        self._is_proxied = settings.behind_proxy
        self._hosts: frozenset[str] | None = None
        self._takes_addresses = False
        if not settings.auth_kinds:
            host = (settings.host or "127.0.0.1").lower()
            own = {
                host,
                socket.gethostname().lower(),
                *map(str.lower, words(settings.allowed_hosts)),
            }
            self._hosts = frozenset(_LOOPBACK_NAMES | own)
            self._takes_addresses = host not in _LOOPBACK_NAMES
        self.headers: Final[tuple[Header, ...]] = (
            (_NO_SNIFF, _HSTS)
            if settings.tls_certificate is not None or settings.behind_proxy
            else (_NO_SNIFF,)
        )
        """Headers of every response."""
        self.encoded_headers: Final = encoded(self.headers)
        self._preflight: Final = {
            "Access-Control-Allow-Methods": settings.cors_allowed_methods,
            "Access-Control-Allow-Headers": settings.cors_allowed_headers,
            "Access-Control-Max-Age": str(settings.cors_max_age_seconds),
        }
        self._known_hosts = BoundedDict[str, None](_MOST_HOSTS)

    def check(
        self,
        header: Callable[[bytes], str | None],
        scheme: str,
        *,
        is_page: bool,
        is_taking: bool = False,
    ) -> None:
        """
        Raise OriginRefused for a page of another site.

        ``is_page``: a link may lead here. ``is_taking``: a GET that takes messages.
        """
        host = header(b"host") or ""
        if self._hosts is not None and host not in self._known_hosts:
            self._check_host(host)
        origin = header(b"origin")
        if origin is not None:
            if not self._is_own(origin, host, header, scheme) and not self.allows(origin):
                raise errors.OriginRefused(
                    f"pages of {origin[:100]} may not call this; see CORS_ALLOWED_ORIGINS"
                )
            return
        site = header(b"sec-fetch-site")
        if site is None and is_taking and self._hosts is not None and _is_browser(header):
            # Over plain HTTP, browsers omit Sec-Fetch-Site. It may be an image on another site.
            raise errors.OriginRefused(
                "A browser may not take messages with GET from a server without authentication, "
                "because any web page could make it do so. Use POST."
            )
        if site is None or site in ("same-origin", "none"):
            return
        if is_page and header(b"sec-fetch-mode") == "navigate":
            return
        raise errors.OriginRefused("pages of other sites may not call this server")

    def allows(self, origin: str) -> bool:
        """Whether pages of an origin may call across origins."""
        if self._allows_all:
            return origin != "null"
        return bool(self._origins) and _normal(origin) in self._origins

    def cors(self, origin: str | None) -> tuple[Header, ...]:
        """Return the headers that let an allowed origin read the response."""
        if origin is None or not self.allows(origin):
            return ()
        return (
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"Origin"),
        )

    def preflight(self, origin: str | None) -> Mapping[str, str]:
        """Return the headers of the response to a CORS preflight request."""
        if origin is None or not self.allows(origin):
            raise errors.OriginRefused(
                f"pages of {(origin or '?')[:100]} may not call this; see CORS_ALLOWED_ORIGINS"
            )
        return self._preflight

    def _check_host(self, host: str) -> None:
        """Reject unknown host names, which DNS rebinding attacks use."""
        name = _host_name(host)
        assert self._hosts is not None
        is_known = name in self._hosts or name.endswith(".localhost")
        if not is_known and self._takes_addresses:
            with contextlib.suppress(ValueError):
                ipaddress.ip_address(name)
                is_known = True
        if not is_known:
            raise errors.OriginRefused(
                f"{name[:100]!r} is not a host name of this server; see QUEEN_ALLOWED_HOSTS"
            )
        self._known_hosts[host] = None

    def _is_own(
        self, origin: str, host: str, header: Callable[[bytes], str | None], scheme: str
    ) -> bool:
        schemes = ["https" if scheme in ("https", "wss") else "http"]
        if self._is_proxied:
            host = header(b"x-forwarded-host") or host
            proto = header(b"x-forwarded-proto")
            schemes = [proto.lower()] if proto is not None else ["http", "https"]
        wanted = _normal(origin)
        return wanted is not None and any(wanted == _normal(f"{each}://{host}") for each in schemes)


def _is_browser(header: Callable[[bytes], str | None]) -> bool:
    """Whether both headers are set. Browsers always send both, programs usually don't."""
    agent = header(b"user-agent") or ""
    return agent.startswith("Mozilla/") and header(b"accept-language") is not None


def _normal(origin: str) -> str | None:
    """Return scheme, host and port of an origin; None if it is invalid."""
    try:
        parts = urlsplit(origin.lower())
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or parts.path not in ("", "/"):
        return None
    if parts.query or parts.fragment or parts.username is not None:
        return None
    return f"{parts.scheme}://{parts.hostname}:{port}"


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""
