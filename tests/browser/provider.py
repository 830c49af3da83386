"""An OpenID provider as a process, with Authlib on Flask. Users choose their identity."""

# pyright: basic
# ruff: noqa: ANN401 - Authlib has no types, nor has what it hands over

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

CLIENT = "queen-dashboard"
AUDIENCE = "queen"
PLACES = ("http://127.0.0.1", "http://127.0.0.1/tools/queen")
"""The base URLs of the client's pages, at any port."""


class Provider:
    """
    Starts and stops the process.

    The name of the user selects the behaviour: ``mallory`` gets the token of another sign-in,
    ``late`` gets an expired code, and ``nobody`` is rejected. If a name ends in a number, its
    tokens are valid for that number of seconds.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.issuer = f"https://localhost:{self.port}"
        self._arguments = [str(certificate), str(key), str(self.port)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it listens."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.browser.provider", *self._arguments],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def app_of(issuer: str) -> Any:
    """Discovery, keys, authorization, tokens and sign-out."""
    from authlib.integrations.flask_oauth2 import AuthorizationServer
    from authlib.oauth2.rfc6749 import ClientMixin, grants
    from authlib.oauth2.rfc7636 import CodeChallenge
    from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
    from authlib.oidc.core import AuthorizationCodeMixin, OpenIDCode, OpenIDToken
    from authlib.oidc.rpinitiated import EndSessionEndpoint
    from flask import Flask, jsonify, make_response, request, session
    from joserfc.jwk import KeySet, RSAKey

    keys = KeySet([RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True)])
    codes: dict[str, Any] = {}
    refresh_tokens: dict[str, tuple[Any, str]] = {}

    class User:
        def __init__(self, name: str, role: str) -> None:
            self.name, self.role = name, role
            digits = name.rpartition("-")[2]
            self.seconds = int(digits) if digits.isdigit() else 600

        def get_user_id(self) -> str:
            return self.name

    class Client(ClientMixin):
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

    class CodeGrant(grants.AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ["none"]  # noqa: RUF012 - Authlib's

        def save_authorization_code(self, code: str, request: Any) -> None:
            codes[code] = Code(code, request)

        def query_authorization_code(self, code: str, client: Any) -> Code | None:
            found = codes.get(code)
            return found if found and found.until > time.time() else None

        def delete_authorization_code(self, authorization_code: Code) -> None:
            del codes[authorization_code.code]

        def authenticate_user(self, authorization_code: Code) -> User:
            return authorization_code.user

    class RefreshGrant(grants.RefreshTokenGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ["none"]  # noqa: RUF012 - Authlib's
        INCLUDE_NEW_REFRESH_TOKEN = True

        def authenticate_refresh_token(self, refresh_token: str) -> Any:
            # Each one is valid once.
            found = refresh_tokens.pop(refresh_token, None)
            return None if found is None else Refresh(*found)

        def authenticate_user(self, refresh_token: "Refresh") -> User:
            return refresh_token.user

        def revoke_old_credential(self, refresh_token: "Refresh") -> None:
            pass

    class Refresh:
        def __init__(self, user: User, scope: str) -> None:
            self.user, self.scope = user, scope

        def check_client(self, client: Client) -> bool:
            return True

        def get_scope(self) -> str:
            return self.scope

    class AccessTokens(JWTBearerTokenGenerator):
        def get_jwks(self) -> KeySet:
            return keys

        def get_audiences(self, client: Client, user: User, scope: str) -> str:
            return AUDIENCE

        def get_extra_claims(
            self, client: Client, grant_type: str, user: User, scope: str
        ) -> dict[str, Any]:
            return {"exp": int(time.time()) + user.seconds, "role": user.role}

    class IdTokens:
        def resolve_client_private_key(self, client: Client) -> KeySet:
            return keys

        def get_client_claims(self, client: Client) -> dict[str, Any]:
            return {"iss": issuer, "aud": [CLIENT]}

        def generate_user_info(self, user: User, scope: str) -> dict[str, Any]:
            return {"sub": user.name, "role": user.role, "exp": int(time.time()) + user.seconds}

        def exists_nonce(self, nonce: str, request: Any) -> bool:
            return any(each.nonce == nonce for each in codes.values())

    class IdTokenOfCode(IdTokens, OpenIDCode):
        pass

    class IdTokenOfRefresh(IdTokens, OpenIDToken):
        pass

    class SignOut(EndSessionEndpoint):
        def get_server_jwks(self) -> KeySet:
            return keys

        def end_session(self, end_session_request: Any) -> None:
            session.clear()

        def _is_valid_post_logout_redirect_uri(self, client: Client, uri: str) -> bool:
            return _portless(uri) in {f"{each}/" for each in PLACES}

    def save_token(token: dict[str, Any], request: Any) -> None:
        if "refresh_token" in token:
            refresh_tokens[token["refresh_token"]] = (request.user, token["scope"])

    app = Flask(__name__)
    app.secret_key = os.urandom(32)
    app.config["SESSION_COOKIE_SECURE"] = True
    server = AuthorizationServer(
        app, query_client=lambda name: Client() if name == CLIENT else None, save_token=save_token
    )
    server.register_token_generator(
        "default",
        AccessTokens(issuer, refresh_token_generator=lambda **_: os.urandom(16).hex()),
    )
    server.register_grant(CodeGrant, [IdTokenOfCode(require_nonce=True), CodeChallenge()])
    server.register_grant(RefreshGrant, [IdTokenOfRefresh()])
    server.register_endpoint(SignOut)

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
        return jsonify(keys.as_dict(private=False))

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
    from werkzeug.serving import make_server

    certificate, key, port = sys.argv[1:]
    app = app_of(f"https://localhost:{port}")
    server = make_server("127.0.0.1", int(port), app, threaded=True, ssl_context=(certificate, key))
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
