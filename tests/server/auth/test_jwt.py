"""Tokens signed by an identity provider, and forged ones."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from queen import errors
from queen.server.auth.jwks import keys_of
from queen.server.auth.jwt_tokens import Jwts
from queen.settings import Settings
from tests.support.callers import Caller, make_key
from tests.support.certificates import Authority, Pair
from tests.support.forgeries import AUDIENCE, ISSUER, KEY, PEM, claims, forged, good
from tests.support.server import Server, until

BOTH = {
    "QUEEN_AUTH": "keys,jwt",
    "HOST": "127.0.0.1",
    "JWT_ISSUER": ISSUER,
    "JWT_AUDIENCE": AUDIENCE,
}
SECRET = "a secret of more than thirty-two bytes"


@pytest.fixture
async def server(dsn: str, tmp_path: Path) -> AsyncIterator[Server]:
    file = tmp_path / "public.pem"
    file.write_text(PEM)
    async with Server(dsn, {**BOTH, "JWT_PUBLIC_KEY": str(file)}) as server:
        yield server


async def test_forged_tokens_are_rejected(server: Server) -> None:
    tokens = forged()
    assert len(tokens) >= 40
    # A valid token is accepted, so the others fail because of their defects.
    assert (await Caller(server, good()).get("/auth/me")).status == 200
    believed: list[str] = []
    for what, token in tokens.items():
        headers = {"Authorization": f"Bearer {token}".encode().decode("latin-1")}
        reply = await server.request("GET", "/auth/me", headers=headers)
        if (reply.status, reply.code) != (401, "unauthorized"):
            believed.append(f"{what}: {reply.status} {reply.body}")
    assert believed == []


async def test_a_token_defines_the_caller_and_its_permissions(server: Server) -> None:
    alice = Caller(server, good(scopes=[{"namespace": "shop*"}, {"queue": "a.*"}]))
    assert (await alice.get("/auth/me")).body == {
        "name": "jwt:alice",
        "kind": "jwt",
        "permissions": ["browse"],
        "scopes": [{"namespace": "shop*"}, {"queue": "a.*"}],
        "requestsPerSecond": None,
    }
    several = Caller(server, good(role=None, roles=["offline_access", "read-only", "write-only"]))
    assert (await several.get("/auth/me")).body["permissions"] == ["browse", "produce"]
    stranger = Caller(server, good(role="superuser"))
    assert (await stranger.get("/auth/me")).body["permissions"] == []
    assert (await stranger.push("orders")).code == "forbidden"
    nowhere = Caller(server, good(role="admin", scopes=[]))
    assert (await nowhere.push("orders")).code == "forbidden"


async def test_one_of_several_audiences_is_enough(server: Server) -> None:
    assert (await Caller(server, good(aud=["a", AUDIENCE])).get("/auth/me")).status == 200


async def test_small_clock_differences_are_tolerated(server: Server) -> None:
    late = Caller(server, good(exp=int(time.time()) - 10))
    assert (await late.get("/auth/me")).status == 200


async def test_api_keys_and_jwts_work_together(dsn: str, server: Server) -> None:
    key = Caller(server, await make_key(dsn))
    assert (await key.get("/auth/me")).body["kind"] == "key"


async def test_an_expired_token_is_rejected_although_it_is_cached(dsn: str) -> None:
    settings = {**BOTH, "JWT_PUBLIC_KEY": PEM, "JWT_LEEWAY_SECONDS": "0"}
    async with Server(dsn, settings) as server:
        caller = Caller(server, good(exp=int(time.time()) + 2))
        assert (await caller.get("/auth/me")).status == 200

        async def is_refused() -> bool:
            return (await caller.get("/auth/me")).status == 401

        await until(is_refused, seconds=5)


def checker(**settings: str) -> Jwts:
    return Jwts(Settings.from_environ({**BOTH, **settings}))


def pem_of(key: Any) -> str:  # noqa: ANN401 - one of three kinds
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


async def test_each_supported_algorithm_works() -> None:
    p256, ed = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
    for algorithm, key, settings in (
        ("HS256", SECRET, {"JWT_SECRET": SECRET}),
        ("RS256", KEY, {"JWT_PUBLIC_KEY": PEM}),
        ("ES256", p256, {"JWT_PUBLIC_KEY": pem_of(p256)}),
        ("EdDSA", ed, {"JWT_PUBLIC_KEY": pem_of(ed)}),
    ):
        token = jwt.encode(claims(), key, algorithm=algorithm)
        caller = await checker(JWT_ALGORITHMS=algorithm, **settings).caller(token)
        assert caller.name == "jwt:alice"


async def test_a_shared_secret_accepts_no_other_algorithm() -> None:
    only = checker(JWT_ALGORITHMS="HS256", JWT_SECRET=SECRET)
    for token in (good(), jwt.encode(claims(), SECRET.encode() * 2, algorithm="HS512")):
        with pytest.raises(errors.Unauthorized):
            await only.caller(token)


@pytest.mark.parametrize(
    "settings",
    [
        {"JWT_ALGORITHMS": "none", "JWT_PUBLIC_KEY": PEM},
        {"JWT_ALGORITHMS": "HS256,RS256", "JWT_SECRET": SECRET, "JWT_PUBLIC_KEY": PEM},
        {"JWT_ALGORITHMS": "HS512", "JWT_SECRET": SECRET},
        {"JWT_ALGORITHMS": "", "JWT_PUBLIC_KEY": PEM},
        {"JWT_ALGORITHMS": "HS256"},
        {"JWT_ALGORITHMS": "HS256", "JWT_SECRET": "short"},
        {"JWT_ALGORITHMS": "HS256", "JWT_SECRET": PEM, "JWT_PUBLIC_KEY": PEM},
        {"JWT_ALGORITHMS": "RS256"},
        {"JWT_ALGORITHMS": "RS256", "JWT_SECRET": SECRET},
        {"JWT_ALGORITHMS": "ES256", "JWT_PUBLIC_KEY": PEM},
        {"JWT_ALGORITHMS": "RS256", "JWT_PUBLIC_KEY": "there is no such file"},
        {"JWT_ALGORITHMS": "RS256", "JWT_PUBLIC_KEY": PEM, "JWT_JWKS_URL": "https://a.b/k"},
        {"JWT_ALGORITHMS": "RS256", "JWT_JWKS_URL": "http://id.example/keys"},
        {"JWT_ALGORITHMS": "RS256", "JWT_JWKS_URL": "file:///etc/passwd"},
        {"JWT_ALGORITHMS": "RS256", "JWT_JWKS_URL": "https://user:pass@id.example/keys"},
        {"JWT_PUBLIC_KEY": PEM, "JWT_ISSUER": ""},
        {"JWT_PUBLIC_KEY": PEM, "JWT_AUDIENCE": ""},
        {"JWT_PUBLIC_KEY": PEM, "JWT_LEEWAY_SECONDS": "61"},
        {
            "JWT_ALGORITHMS": "RS256",
            "JWT_PUBLIC_KEY": pem_of(rsa.generate_private_key(65537, 1024)),
        },
        {
            "JWT_ALGORITHMS": "ES256",
            "JWT_PUBLIC_KEY": pem_of(ec.generate_private_key(ec.SECP384R1())),
        },
    ],
)
def test_settings_that_would_accept_forged_tokens_stop_the_start(settings: dict[str, str]) -> None:
    with pytest.raises(errors.BadSettings):
        checker(**settings)


def jwk(key: rsa.RSAPrivateKey, **more: str) -> dict[str, Any]:
    return {**json.loads(jwt.get_algorithm_by_name("RS256").to_jwk(key.public_key())), **more}


def test_only_public_signature_keys_of_an_issuer_are_used() -> None:
    private = json.loads(jwt.get_algorithm_by_name("RS256").to_jwk(KEY))
    told = [
        jwk(KEY, kid="good"),
        jwk(KEY),
        jwk(KEY, kid="other", use="enc"),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
        {**private, "kid": "private"},
        {"kty": "RSA", "kid": "broken"},
        {"kid": 7},
    ]
    assert list(keys_of(json.dumps({"keys": told}).encode())) == ["good"]


class Issuer:
    """An identity provider over HTTPS whose keys change."""

    def __init__(self, pair: Pair) -> None:
        self.keys: list[dict[str, Any]] = []
        self.configuration: dict[str, Any] | None = None
        """The response instead of keys."""
        self.redirects_to: str | None = None
        self.asked = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pair.certificate, pair.key)
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=self._context)
        port: int = self._server.sockets[0].getsockname()[1]
        return f"https://localhost:{port}/keys"

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        body = json.dumps(self.configuration or {"keys": self.keys}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        if self.redirects_to:
            head, body = f"HTTP/1.1 302 Found\r\nLocation: {self.redirects_to}\r\n\r\n", b""
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()


@pytest.fixture
async def issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Issuer]:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    issuer = Issuer(authority.sign("issuer"))
    yield issuer
    await issuer.close()


def of_key(kid: str | None, key: rsa.RSAPrivateKey = KEY) -> str:
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(claims(), key, algorithm="RS256", headers=headers)


async def test_the_issuers_keys_are_fetched_once_and_found_by_id(issuer: Issuer) -> None:
    issuer.keys = [jwk(KEY, kid="one")]
    jwts = checker(JWT_JWKS_URL=await issuer.start())
    for _ in range(3):
        assert (await jwts.caller(of_key("one"))).name == "jwt:alice"
    for token in (of_key("two"), of_key(None), of_key("../one"), of_key("one", _other())):
        with pytest.raises(errors.Unauthorized):
            await jwts.caller(token)
    # Tokens with unknown keys don't cause more requests to the issuer.
    for number in range(20):
        with pytest.raises(errors.Unauthorized):
            await jwts.caller(of_key(f"unknown {number}"))
    assert issuer.asked == 1
    await jwts.close()


async def test_redirects_and_untrusted_issuers_are_rejected(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer.keys = [jwk(KEY, kid="one")]
    url = await issuer.start()
    issuer.redirects_to = url
    redirected = checker(JWT_JWKS_URL=url)
    with pytest.raises(errors.Overloaded):
        await redirected.caller(of_key("one"))
    issuer.redirects_to = None
    monkeypatch.delenv("SSL_CERT_FILE")
    untrusted = checker(JWT_JWKS_URL=url)
    with pytest.raises(errors.Overloaded):
        await untrusted.caller(of_key("one"))
    assert issuer.asked == 1


def _other() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


FOREIGN: list[dict[str, Any]] = [
    {"roles": ["admin"]},
    {"role": "admin"},
    {"roles": ["other:admin", "queen", "queen:", "queen: admin", "QUEEN:admin", "xqueen:admin"]},
    {"groups": ["queen:admin"]},
    {"resource_access": {"other": {"roles": ["queen:admin"]}}},
]
"""Claims that other applications, or users, put into tokens of the same audience."""


async def permissions(checks: Jwts, **claims: Any) -> list[str]:  # noqa: ANN401 - JSON
    return sorted((await checks.caller(good(**{"role": None, **claims}))).permissions)


async def test_with_a_prefix_roles_of_other_applications_are_ignored() -> None:
    checks = checker(JWT_PUBLIC_KEY=PEM, JWT_ROLES_PREFIX="queen:")
    for foreign in FOREIGN:
        assert await permissions(checks, **foreign) == [], foreign
    both = ["admin", "queen:read-only", "other:write-only"]
    assert await permissions(checks, roles=both) == ["browse"]
    assert await permissions(checks, role="queen:write-only") == ["produce"]


async def test_with_a_separate_claim_other_claims_are_ignored() -> None:
    path = "resource_access.queen.roles"
    checks = checker(JWT_PUBLIC_KEY=PEM, JWT_ROLES_CLAIM=path)
    for foreign in FOREIGN:
        assert await permissions(checks, **foreign) == [], foreign
    for roles in (["read-only"], "read-only"):
        ours: dict[str, Any] = {"resource_access": {"queen": {"roles": roles}, "roles": ["admin"]}}
        assert await permissions(checks, roles=["admin"], **ours) == ["browse"]
    for broken in ("queen", {"queen": "roles"}, {"queen": ["roles"]}, None, ["queen"]):
        assert await permissions(checks, resource_access=broken) == []
    for wrong in (7, [7], {"admin": True}, [["admin"]], True):
        with pytest.raises(errors.Unauthorized):
            await permissions(checks, resource_access={"queen": {"roles": wrong}})


async def test_a_claim_name_may_contain_dots() -> None:
    name = "https://queen.example/roles"
    checks = checker(JWT_PUBLIC_KEY=PEM, JWT_ROLES_CLAIM=name, JWT_ROLES_PREFIX="queen:")
    claims = {name: ["queen:read-only", "admin"], "roles": ["queen:admin"]}
    assert await permissions(checks, **claims) == ["browse"]


async def test_the_log_warns_about_roles_that_other_applications_may_grant(dsn: str) -> None:
    own = {"JWT_ROLES_PREFIX": "queen:"}, {"JWT_ROLES_CLAIM": "resource_access.queen.roles"}
    for settings, is_warned in (({}, True), *((each, False) for each in own)):
        async with Server(dsn, {**BOTH, "JWT_PUBLIC_KEY": PEM, **settings}) as server:
            assert ("server.roles_shared" in server.log) == is_warned, settings
