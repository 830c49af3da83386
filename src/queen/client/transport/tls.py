"""TLS to servers: trusted certificate authorities and the client certificate."""

from typing import TYPE_CHECKING

from queen import errors
from queen.client.config import Config

if TYPE_CHECKING:
    import ssl


def context(config: Config) -> "ssl.SSLContext | None":
    """Build the TLS context of a client; None for the system's defaults. Raises BadSettings."""
    return context_of(config.ca_file, config.client_certificate, config.client_key)


def context_of(
    ca_file: str | None, certificate: str | None, key: str | None
) -> "ssl.SSLContext | None":
    """Build a context from files. Without ``key``, the certificate file must contain it."""
    if key is not None and certificate is None:
        raise errors.BadSettings("client_key needs client_certificate")
    if ca_file is None and certificate is None:
        return None
    import ssl  # Loaded here, because most clients need no custom context.

    try:
        made = ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        raise errors.BadSettings(f"ca_file {ca_file}: {_reason(error)}") from error
    if certificate is not None:
        try:
            made.load_cert_chain(certificate, key)
        except (OSError, ValueError) as error:
            files = certificate if key is None else f"{certificate} and {key}"
            raise errors.BadSettings(f"client_certificate {files}: {_reason(error)}") from error
    return made


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
