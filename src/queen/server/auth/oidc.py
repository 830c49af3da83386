"""Sign-in to the dashboard: the issuer's OpenID Connect discovery document."""

import re
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from queen import errors
from queen.server.auth.cached_document import CachedDocument
from queen.settings import Settings

_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_HOST: Final = re.compile(r"[a-z0-9.-]+(:[0-9]+)?", re.ASCII)
"""Characters that are safe in a Content-Security-Policy."""


class Endpoints(msgspec.Struct, frozen=True):
    """The part of the discovery document that is used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    end_session_endpoint: str | None = None

    @property
    def token_origin(self) -> str:
        """The origin that the dashboard requests tokens from."""
        return f"https://{urlsplit(self.token_endpoint).netloc.lower()}"


class Provider(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data for the dashboard's sign-in. Without endpoints, the issuer is unavailable."""

    name: str
    issuer: str
    client_id: str
    scopes: str
    token: Literal["access", "id"]
    endpoints: Endpoints | None


class Oidc:
    """The issuer's endpoints."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._issuer = settings.jwt_issuer or ""
        if "jwt" not in settings.auth_kinds:
            raise errors.BadSettings("OIDC_CLIENT_ID needs QUEEN_AUTH=jwt or keys,jwt")
        if "openid" not in settings.oidc_scopes.split():
            raise errors.BadSettings("OIDC_SCOPES must include openid")
        self._endpoints = CachedDocument(
            self._issuer.rstrip("/") + _WELL_KNOWN,
            self._read,
            setting="with OIDC_CLIENT_ID, JWT_ISSUER",
        )

    async def close(self) -> None:
        await self._endpoints.close()

    async def provider(self) -> Provider:
        """Return the provider; waits for the issuer the first time."""
        if self._endpoints.value is None:
            await self._endpoints.fetch()
        else:
            self._endpoints.refresh()
        settings = self._settings
        return Provider(
            name=settings.oidc_name or urlsplit(self._issuer).hostname or "",
            issuer=self._issuer,
            client_id=settings.oidc_client_id or "",
            scopes=settings.oidc_scopes,
            token=settings.oidc_token,
            endpoints=self._endpoints.value,
        )

    def _read(self, text: bytes) -> Endpoints:
        """Decode the issuer's endpoints, and check that they are safe for the page."""
        endpoints = msgspec.json.decode(text, type=Endpoints)
        if endpoints.issuer != self._issuer:
            raise ValueError("the document is of another issuer")
        for url in (
            endpoints.authorization_endpoint,
            endpoints.token_endpoint,
            endpoints.end_session_endpoint,
        ):
            if url is None:
                continue
            parts = urlsplit(url)
            if parts.scheme != "https" or not _HOST.fullmatch(parts.netloc.lower()):
                raise ValueError("an endpoint is not an https URL")
        return endpoints
