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
    """Whether only this machine can reach a server on this address."""
    if host.lower() == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def host_of(settings: Settings) -> str:
    """Return the address to listen on: loopback without authentication, otherwise all."""
    return settings.host or ("0.0.0.0" if settings.auth_kinds else "127.0.0.1")


def check(settings: Settings) -> None:
    """Raise BadSettings for unsafe settings."""
    if unknown := settings.auth_kinds - _KINDS:
        raise errors.BadSettings(f"QUEEN_AUTH must be keys, jwt or keys,jwt, not {min(unknown)}")
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
            f"HOST is {host}, and without authentication every caller could read and delete "
            "messages. Set QUEEN_AUTH=keys, unset HOST, or set QUEEN_INSECURE=true."
        )
    if settings.tls_certificate is None and not settings.behind_proxy:
        raise errors.BadSettings(
            f"On {host}, API keys and messages would cross the network unencrypted. Set "
            "QUEEN_TLS_CERTIFICATE and QUEEN_TLS_KEY, or QUEEN_BEHIND_PROXY=true if a proxy "
            "terminates TLS, or HOST=127.0.0.1."
        )


def tls(settings: Settings) -> ssl.SSLContext | None:
    """Build the TLS context, for 1.2 or newer; None without a certificate."""
    if settings.tls_certificate is None:
        if settings.tls_key is not None or settings.tls_client_ca is not None:
            raise errors.BadSettings(
                "QUEEN_TLS_KEY and QUEEN_TLS_CLIENT_CA need QUEEN_TLS_CERTIFICATE"
            )
        return None
    if settings.tls_key is None:
        raise errors.BadSettings("QUEEN_TLS_CERTIFICATE needs QUEEN_TLS_KEY")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        # With an empty password, because OpenSSL would prompt for one otherwise.
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, password="")
        if settings.tls_client_ca is not None:
            context.load_verify_locations(settings.tls_client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:
        # Without the text of the error, which may quote the file.
        raise errors.BadSettings(
            "a file of QUEEN_TLS_CERTIFICATE, QUEEN_TLS_KEY or QUEEN_TLS_CLIENT_CA cannot be read"
        ) from error
    return context


def keep_memory_private() -> None:
    """Disable core dumps, which would contain payloads and keys."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
