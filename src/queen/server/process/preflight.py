"""Reject unsafe settings before the server starts."""

import contextlib
import ipaddress
import resource
import ssl
from typing import Final

from queen import errors
from queen.engine.encryption.rotation import keyring_of
from queen.server.auth.jwt_tokens import Jwts
from queen.server.auth.oidc import Oidc
from queen.server.auth.origins import Origins
from queen.settings import Settings

_KINDS: Final = frozenset({"keys", "jwt"})


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches a server that listens there."""
    if host.lower() == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def host_of(settings: Settings) -> str:
    """Where to listen: without authentication loopback, else everywhere."""
    return settings.host or ("0.0.0.0" if settings.auth_kinds else "127.0.0.1")


def check(settings: Settings) -> None:
    """Raise BadSettings, in a sentence that says what to do, for what would not be safe."""
    if unknown := settings.auth_kinds - _KINDS:
        raise errors.BadSettings(f"QUEEN_AUTH is keys, jwt or keys,jwt; not {min(unknown)}")
    if "jwt" in settings.auth_kinds:
        Jwts(settings)
    if settings.oidc_client_id:
        Oidc(settings)
    Origins(settings)
    keyring_of(settings)
    tls(settings)
    host = host_of(settings)
    if is_loopback(host) or settings.insecure:
        return
    if not settings.auth_kinds:
        raise errors.BadSettings(
            f"HOST is {host}, and without authentication anybody could read and drop messages: "
            "set QUEEN_AUTH=keys, or leave HOST out, or set QUEEN_INSECURE=true"
        )
    if settings.tls_certificate is None and not settings.behind_proxy:
        raise errors.BadSettings(
            f"on {host} keys and messages would cross the network in clear: set "
            "QUEEN_TLS_CERTIFICATE and QUEEN_TLS_KEY, or QUEEN_BEHIND_PROXY=true if a proxy "
            "speaks TLS, or HOST=127.0.0.1"
        )


def tls(settings: Settings) -> ssl.SSLContext | None:
    """What to speak TLS with, 1.2 or newer; None where no certificate is set."""
    if settings.tls_certificate is None:
        if settings.tls_key is not None or settings.tls_client_ca is not None:
            raise errors.BadSettings("QUEEN_TLS_KEY and QUEEN_TLS_CLIENT_CA need a certificate")
        return None
    if settings.tls_key is None:
        raise errors.BadSettings("QUEEN_TLS_CERTIFICATE needs QUEEN_TLS_KEY")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        # The empty password: OpenSSL would ask the terminal for one otherwise.
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, password="")
        if settings.tls_client_ca is not None:
            context.load_verify_locations(settings.tls_client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:
        # Never the error's own words: they may quote the file.
        raise errors.BadSettings(
            "a file of QUEEN_TLS_CERTIFICATE, QUEEN_TLS_KEY or QUEEN_TLS_CLIENT_CA cannot be read"
        ) from error
    return context


def keep_memory_private() -> None:
    """No core dumps: they would hold payloads and keys."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
