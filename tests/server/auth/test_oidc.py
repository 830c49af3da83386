"""Sign-in: the issuer's discovery document, and which parts of it are accepted."""

import html
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from queen.server.auth import cached_document
from queen.server.auth.oidc import Oidc
from queen.server.http.static_files import StaticFiles
from queen.settings import Settings
from tests.server.auth.test_jwt import Issuer
from tests.support.certificates import Authority
from tests.support.forgeries import PEM

INDEX = '<meta name="queen-oidc" content=""><script type="module" src="./assets/a.js"></script>'


@pytest.fixture
async def issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Issuer]:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    monkeypatch.setattr(cached_document, "_REFETCH_SECONDS", 0)
    issuer = Issuer(authority.sign("issuer"))
    yield issuer
    await issuer.close()


async def started(issuer: Issuer, **more: str) -> tuple[Settings, dict[str, Any]]:
    """Settings for this issuer, and its discovery document."""
    url = (await issuer.start()).removesuffix("/keys")
    settings = Settings.from_environ(
        {
            "QUEEN_AUTH": "jwt",
            "JWT_PUBLIC_KEY": PEM,
            "JWT_ISSUER": url,
            "JWT_AUDIENCE": "queen",
            "OIDC_CLIENT_ID": "dashboard",
            **more,
        }
    )
    return settings, {
        "issuer": url,
        "authorization_endpoint": f"{url}/authorize",
        "token_endpoint": "https://tokens.example:8443/t",
        "end_session_endpoint": f"{url}/end",
        "jwks_uri": f"{url}/keys",
    }


async def document(pages: StaticFiles) -> tuple[Any, str]:
    """The provider as embedded in the document, and its policy."""
    answer = await pages.find("GET", b"/", lambda _: None)
    assert answer.body is not None
    assert answer.headers is not None
    match = re.search(r'name="queen-oidc" content="([^"]*)"', answer.body.decode())
    assert match is not None
    told = html.unescape(match[1])
    return json.loads(told or "null"), answer.headers["Content-Security-Policy"]


def pages_of(settings: Settings, folder: Path) -> tuple[StaticFiles, Oidc]:
    (folder / "index.html").write_text(INDEX, "utf-8")
    oidc = Oidc(settings)
    return StaticFiles(settings, oidc, folder=folder), oidc


async def test_the_document_contains_the_sign_in_endpoints_and_allows_the_token_endpoint_only(
    issuer: Issuer, tmp_path: Path
) -> None:
    settings, issuer.configuration = await started(issuer, OIDC_NAME='Acme"><script>')
    (tmp_path / "pages").mkdir()
    pages, oidc = pages_of(settings, tmp_path / "pages")
    told, policy = await document(pages)

    assert told == {
        "name": 'Acme"><script>',
        "issuer": settings.jwt_issuer,
        "clientId": "dashboard",
        "scopes": "openid profile",
        "token": "access",
        "endpoints": {
            name: issuer.configuration[name]
            for name in (
                "issuer",
                "authorization_endpoint",
                "token_endpoint",
                "end_session_endpoint",
            )
        },
    }
    assert policy.endswith("; connect-src 'self' https://tokens.example:8443")
    assert await document(pages) == (told, policy)
    assert issuer.asked == 1
    await oidc.close()


async def test_an_unavailable_issuer_is_asked_again_and_allows_no_connections_meanwhile(
    issuer: Issuer, tmp_path: Path
) -> None:
    settings, configuration = await started(issuer)
    (tmp_path / "pages").mkdir()
    pages, oidc = pages_of(settings, tmp_path / "pages")
    issuer.redirects_to = "https://elsewhere.example/"
    told, policy = await document(pages)
    assert (told["name"], told["endpoints"]) == ("localhost", None)
    assert "connect-src" not in policy

    issuer.redirects_to, issuer.configuration = None, configuration
    told, policy = await document(pages)
    assert told["endpoints"]["token_endpoint"] == configuration["token_endpoint"]
    await oidc.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "https://other.example"},
        {"token_endpoint": None},
        {"token_endpoint": "http://tokens.example/t"},
        {"token_endpoint": "https://user:secret@tokens.example/t"},
        {"token_endpoint": "https://a.b;script-src */t"},
        {"token_endpoint": "https://a.b 'unsafe-inline'/t"},
        {"token_endpoint": "https:///t"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"end_session_endpoint": "http://id.example/end"},
    ],
)
async def test_invalid_endpoints_are_rejected(issuer: Issuer, wrong: dict[str, Any]) -> None:
    settings, configuration = await started(issuer)
    issuer.configuration = {**configuration, **wrong}
    oidc = Oidc(settings)
    assert (await oidc.provider()).endpoints is None
    await oidc.close()
