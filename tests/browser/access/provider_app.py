"""
The OpenID provider's process, with Authlib on Flask. Users choose their identity.

Usage: `python -m tests.browser.access.provider_app CERTIFICATE KEY PORT`. It prints `ready`.
"""

# pyright: basic
# ruff: noqa: ANN401 - Authlib has no types, nor has what it hands over

import os
import sys
import time
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from authlib.oidc.core import AuthorizationCodeMixin, OpenIDCode, OpenIDToken
from authlib.oidc.rpinitiated import EndSessionEndpoint
from flask import Flask, jsonify, make_response, request, session
from joserfc.jwk import KeySet, RSAKey
from werkzeug.serving import make_server

from tests.browser.access.provider import AUDIENCE, CLIENT

PLACES = ("http://127.0.0.1", "http://127.0.0.1/tools/queen")
"""The base URLs of the client's pages, at any port."""


class User:
    """A person with a role. The number at the end of a name is the lifetime of its tokens."""

    def __init__(self, name: str, role: str) -> None:
        self.name, self.role = name, role
        digits = name.rpartition("-")[2]
        self.seconds = int(digits) if digits.isdigit() else 600

    def get_user_id(self) -> str:
        return self.name


class Client(ClientMixin):
    """The dashboard: a public client that uses codes and refresh tokens."""

    id_token_signed_response_alg = "RS256"

    def get_client_id(self) -> str:
        return CLIENT

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return _portless(redirect_uri) in {f"{each}/signed-in" for each in PLACES}

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in ("authorization_code", "refresh_token")


class Code(AuthorizationCodeMixin):
    """An authorization code and the request that it belongs to."""

    def __init__(self, code: str, asked: Any) -> None:
        payload = asked.payload
        self.code, self.user = code, asked.user
        self.redirect_uri, self.scope = payload.redirect_uri, payload.scope
        self.nonce = payload.data.get("nonce")
        self.code_challenge = payload.data.get("code_challenge")
        self.code_challenge_method = payload.data.get("code_challenge_method")
        self.until = time.time() + (-1 if asked.user.name == "late" else 60)

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str:
        return "of-another" if self.user.name == "mallory" else self.nonce

    def get_auth_time(self) -> Any:
        return None

    def get_acr(self) -> Any:
        return None

    def get_amr(self) -> Any:
        return None


class Refresh:
    """A refresh token."""

    def __init__(self, user: User, scope: str) -> None:
        self.user, self.scope = user, scope

    def check_client(self, client: Client) -> bool:
        return True

    def get_scope(self) -> str:
        return self.scope


class Server(AuthorizationServer):
    """The keys, codes and refresh tokens of one provider."""

    def __init__(self, app: Flask, issuer: str) -> None:
        self.issuer = issuer
        self.keys = KeySet([RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True)])
        self.codes: dict[str, Code] = {}
        self.refresh_tokens: dict[str, tuple[User, str]] = {}
        super().__init__(app)
        self.register_token_generator("default", AccessTokens(self))
        self.register_grant(CodeGrant, [IdTokenOfCode(self), CodeChallenge()])
        self.register_grant(RefreshGrant, [IdTokenOfRefresh(self)])
        self.register_endpoint(SignOut)

    def query_client(self, client_id: str) -> Client | None:
        return Client() if client_id == CLIENT else None

    def save_token(self, token: dict[str, Any], request: Any) -> None:
        if "refresh_token" in token:
            self.refresh_tokens[token["refresh_token"]] = (request.user, token["scope"])


class CodeGrant(grants.AuthorizationCodeGrant):
    """Exchanges a code for tokens."""

    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]  # noqa: RUF012 - Authlib's

    def save_authorization_code(self, code: str, request: Any) -> None:
        self.server.codes[code] = Code(code, request)

    def query_authorization_code(self, code: str, client: Any) -> Code | None:
        found = self.server.codes.get(code)
        return found if found and found.until > time.time() else None

    def delete_authorization_code(self, authorization_code: Code) -> None:
        del self.server.codes[authorization_code.code]

    def authenticate_user(self, authorization_code: Code) -> User:
        return authorization_code.user


class RefreshGrant(grants.RefreshTokenGrant):
    """Exchanges a refresh token for new tokens."""

    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]  # noqa: RUF012 - Authlib's
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> Refresh | None:
        # Each one is valid once.
        found = self.server.refresh_tokens.pop(refresh_token, None)
        return None if found is None else Refresh(*found)

    def authenticate_user(self, refresh_token: Refresh) -> User:
        return refresh_token.user

    def revoke_old_credential(self, refresh_token: Refresh) -> None:
        pass


class AccessTokens(JWTBearerTokenGenerator):
    """The access tokens that Queen accepts."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.issuer, refresh_token_generator=lambda **_: os.urandom(16).hex())
        self._keys = server.keys

    def get_jwks(self) -> KeySet:
        return self._keys

    def get_audiences(self, client: Client, user: User, scope: str) -> str:
        return AUDIENCE

    def get_extra_claims(
        self, client: Client, grant_type: str, user: User, scope: str
    ) -> dict[str, Any]:
        return {"exp": int(time.time()) + user.seconds, "role": user.role}


class IdTokens:
    """The claims and the key of ID tokens."""

    require_nonce = True

    def __init__(self, server: Server) -> None:
        self._server = server

    def resolve_client_private_key(self, client: Client) -> KeySet:
        return self._server.keys

    def get_client_claims(self, client: Client) -> dict[str, Any]:
        return {"iss": self._server.issuer, "aud": [CLIENT]}

    def generate_user_info(self, user: User, scope: str) -> dict[str, Any]:
        return {"sub": user.name, "role": user.role, "exp": int(time.time()) + user.seconds}

    def exists_nonce(self, nonce: str, request: Any) -> bool:
        return any(each.nonce == nonce for each in self._server.codes.values())


class IdTokenOfCode(IdTokens, OpenIDCode):
    """The ID token of a sign-in."""


class IdTokenOfRefresh(IdTokens, OpenIDToken):
    """The ID token of a refresh."""


class SignOut(EndSessionEndpoint):
    """Ends the provider's session and returns to the dashboard."""

    server: Server

    def get_server_jwks(self) -> KeySet:
        return self.server.keys

    def end_session(self, end_session_request: Any) -> None:
        session.clear()

    def _is_valid_post_logout_redirect_uri(self, client: Client, uri: str) -> bool:
        return _portless(uri) in {f"{each}/" for each in PLACES}


def app_of(issuer: str) -> Flask:
    """Discovery, keys, authorization, tokens and sign-out."""
    app = Flask(__name__)
    app.secret_key = os.urandom(32)
    app.config["SESSION_COOKIE_SECURE"] = True
    server = Server(app, issuer)

    @app.get("/.well-known/openid-configuration")
    def discovery() -> Any:
        return jsonify(
            issuer=issuer,
            authorization_endpoint=f"{issuer}/authorize",
            token_endpoint=f"{issuer}/token",
            end_session_endpoint=f"{issuer}/sign-out",
            jwks_uri=f"{issuer}/keys",
        )

    @app.get("/keys")
    def public_keys() -> Any:
        return jsonify(server.keys.as_dict(private=False))

    @app.route("/authorize", methods=["GET", "POST"])
    def authorize() -> Any:
        if request.method == "POST":
            session["user"] = [request.form["user"], request.form["role"]]
        if "user" not in session:
            return (
                '<!doctype html><title>Provider</title><form method="post">'
                '<label>User <input name="user"></label>'
                '<label>Role <input name="role" value="read-only"></label>'
                "<button>Continue</button></form>"
            )
        user = User(*session["user"])
        return server.create_authorization_response(
            grant=server.get_consent_grant(end_user=user),
            grant_user=None if user.name == "nobody" else user,
        )

    @app.post("/token")
    def token() -> Any:
        answer = make_response(server.create_token_response())
        answer.headers["Access-Control-Allow-Origin"] = request.headers.get("Origin", "null")
        if "offline_access" not in (answer.json or {}).get("scope", ""):
            told = answer.json or {}
            told.pop("refresh_token", None)
            answer.set_data(app.json.dumps(told))
        return answer

    @app.get("/sign-out")
    def sign_out() -> Any:
        return server.create_endpoint_response("end_session") or "Signed out."

    return app


def _portless(url: str) -> str:
    """The URL without its port, because native clients may use any port on loopback."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.hostname or ""))


def main() -> None:
    certificate, key, port = sys.argv[1:]
    app = app_of(f"https://localhost:{port}")
    server = make_server("127.0.0.1", int(port), app, threaded=True, ssl_context=(certificate, key))
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
