"""Servers are secure by default: which settings start, which are rejected, and why."""

import asyncio
import os
import ssl
import warnings
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest

from tests.support.callers import KEYS, make_key
from tests.support.certificates import Authority
from tests.support.prefork import SOURCE, run_queen
from tests.support.server import Server, until

SECRET = "a secret of more than thirty-two bytes"
JWT = {
    "QUEEN_AUTH": "jwt",
    "JWT_ALGORITHMS": "HS256",
    "JWT_SECRET": SECRET,
    "JWT_ISSUER": "i",
    "JWT_AUDIENCE": "a",
}


def serve(environment: Mapping[str, str], command: str = "serve") -> tuple[int, str]:
    """Start a server that fails before it needs a database. Return its exit code and output."""
    ended = run_queen(
        command,
        environment={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(SOURCE),
            "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
            "PORT": "0",
            "NUM_WORKERS": "1",
            **environment,
        },
        seconds=30,
    )
    return ended.code, ended.out + ended.err


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"HOST": "0.0.0.0"}, "QUEEN_AUTH=keys"),
        ({"HOST": "::"}, "QUEEN_AUTH=keys"),
        ({"HOST": "192.0.2.1"}, "QUEEN_INSECURE=true"),
        ({"HOST": "queen.example"}, "QUEEN_INSECURE=true"),
        ({"HOST": "0.0.0.0", "QUEEN_BEHIND_PROXY": "true"}, "QUEEN_AUTH=keys"),
        ({"QUEEN_AUTH": "keys"}, "QUEEN_TLS_CERTIFICATE"),
        ({"QUEEN_AUTH": "keys", "HOST": "0.0.0.0"}, "QUEEN_BEHIND_PROXY"),
        ({**JWT, "HOST": "0.0.0.0"}, "QUEEN_TLS_CERTIFICATE"),
        ({"QUEEN_AUTH": "password"}, "QUEEN_AUTH"),
        ({"QUEEN_AUTH": "jwt", "HOST": "127.0.0.1"}, "JWT_ISSUER"),
        ({**JWT, "JWT_SECRET": "short", "HOST": "127.0.0.1"}, "JWT_SECRET"),
        ({**JWT, "JWT_LEEWAY_SECONDS": "61"}, "JWT_LEEWAY_SECONDS"),
        ({"QUEEN_TLS_CERTIFICATE": "/none.pem"}, "QUEEN_TLS_KEY"),
        ({"QUEEN_TLS_KEY": "/none.key"}, "QUEEN_TLS_CERTIFICATE"),
        ({"QUEEN_TLS_CERTIFICATE": "/none.pem", "QUEEN_TLS_KEY": "/none.key"}, "cannot be read"),
        ({"CORS_ALLOWED_ORIGINS": "*"}, "CORS_ALLOWED_ORIGINS"),
        ({"CORS_ALLOWED_ORIGINS": "a.example"}, "CORS_ALLOWED_ORIGINS"),
        ({"QUEEN_ATUH": "keys"}, "QUEEN_AUTH"),
        ({**KEYS, "OIDC_CLIENT_ID": "queen"}, "QUEEN_AUTH=jwt"),
        ({**JWT, "HOST": "127.0.0.1", "OIDC_CLIENT_ID": "queen"}, "JWT_ISSUER must begin with"),
        ({**JWT, "OIDC_CLIENT_ID": "q", "OIDC_SCOPES": "profile"}, "OIDC_SCOPES"),
        ({**JWT, "OIDC_CLIENT_ID": "q", "OIDC_TOKEN": "refresh"}, "OIDC_TOKEN"),
    ],
)
async def test_unsafe_settings_stop_the_start(environment: dict[str, str], says: str) -> None:
    code, text = await asyncio.to_thread(serve, environment)
    assert code == 1
    assert says in text
    # The output is one sentence without any configured secret.
    assert len(text.strip().splitlines()) == 1
    assert "Traceback" not in text
    assert SECRET not in text


async def test_queen_dev_rejects_unsafe_settings_too() -> None:
    code, text = await asyncio.to_thread(serve, {"HOST": "0.0.0.0"}, "dev")
    assert code == 1
    assert "QUEEN_AUTH=keys" in text


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"HOST": "localhost"},
        {"HOST": "127.0.0.1", "QUEEN_AUTH": "keys"},
        {"HOST": "0.0.0.0", "QUEEN_INSECURE": "true"},
        {"QUEEN_AUTH": "keys", "QUEEN_BEHIND_PROXY": "true"},
        {**JWT, "HOST": "127.0.0.1"},
    ],
)
async def test_safe_or_explicitly_insecure_settings_start(
    dsn: str, environment: dict[str, str]
) -> None:
    async with Server(dsn, environment) as server:
        me = await server.get("/auth/me")
        assert me.status == (401 if "QUEEN_AUTH" in environment else 200)
        is_open = environment.get("HOST") == "0.0.0.0" or "QUEEN_BEHIND_PROXY" in environment
        assert _listens_everywhere(server.port) is is_open
        assert me.headers["X-Content-Type-Options"] == "nosniff"
        assert ("Strict-Transport-Security" in me.headers) is ("QUEEN_BEHIND_PROXY" in environment)
        assert "Server" not in me.headers


def _listens_everywhere(port: int) -> bool:
    """Read the kernel's table, because this machine may have no other address to connect to."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    local = {line.split()[1] for line in lines if line.split()[3] == "0A"}
    return f"00000000:{port:04X}" in local


class TlsServer(Server):
    """A server with TLS, and a client that trusts its authority."""

    def __init__(self, dsn: str, environment: Mapping[str, str], context: ssl.SSLContext) -> None:
        super().__init__(dsn, environment)
        self.base_url = f"https://127.0.0.1:{self.port}"
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


async def test_only_safe_tls_versions_are_accepted(dsn: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.sign("server")
    environment = {
        "QUEEN_AUTH": "keys",
        "QUEEN_TLS_CERTIFICATE": str(pair.certificate),
        "QUEEN_TLS_KEY": str(pair.key),
    }
    trusting = ssl.create_default_context(cafile=authority.certificate)
    async with TlsServer(dsn, environment, trusting) as server:
        headers = {"Authorization": f"Bearer {await make_key(dsn)}"}
        reply = await server.request("GET", "/auth/me", headers=headers)
        assert reply.status == 200
        assert reply.headers["Strict-Transport-Security"].startswith("max-age=")
        # Plain HTTP, an untrusted authority and old TLS versions all fail.
        plain = f"http://127.0.0.1:{server.port}/livez"
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(plain)
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"{server.base_url}/livez")
        old = ssl.create_default_context(cafile=authority.certificate)
        old.set_ciphers("DEFAULT:@SECLEVEL=0")
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", server.port, ssl=old)


async def test_client_certificates_are_required_if_configured(dsn: str, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    pair = authority.sign("server")
    environment = {
        "QUEEN_TLS_CERTIFICATE": str(pair.certificate),
        "QUEEN_TLS_KEY": str(pair.key),
        "QUEEN_TLS_CLIENT_CA": str(authority.certificate),
    }
    known = ssl.create_default_context(cafile=authority.certificate)
    known.load_cert_chain(*authority.sign("client"))
    async with TlsServer(dsn, environment, known) as server:
        assert (await server.get("/auth/me")).status == 200
        nobody = ssl.create_default_context(cafile=authority.certificate)
        foreign = ssl.create_default_context(cafile=authority.certificate)
        foreign.load_cert_chain(*stranger.sign("foreigner"))
        for context in (nobody, foreign):
            connector = aiohttp.TCPConnector(ssl=context)
            async with aiohttp.ClientSession(connector=connector) as session:
                with pytest.raises(aiohttp.ClientError):
                    await session.get(f"{server.base_url}/livez")


async def test_every_process_of_a_host_requires_a_key_and_shows_no_secret(dsn: str) -> None:
    environment = {"NUM_WORKERS": "2", **JWT, "HOST": "127.0.0.1"}
    async with Server(dsn, environment) as server:
        children = _children(server.pid)
        assert len(children) >= 2
        for pid in (server.pid, *children):
            command, core_limits = _arguments_and_core_limits(pid)
            assert SECRET not in command
            assert dsn not in command
            assert core_limits == ["0", "0"]
        for _ in range(10):
            assert (await server.get("/auth/me")).status == 401

        async def ends() -> bool:
            return await server.stop() in (0, -15)

        await until(ends, seconds=40)


def _arguments_and_core_limits(pid: int) -> tuple[str, list[str]]:
    limits = Path(f"/proc/{pid}/limits").read_text()
    (core,) = [line for line in limits.splitlines() if line.startswith("Max core file")]
    return Path(f"/proc/{pid}/cmdline").read_text(), core.split()[4:6]


def _children(parent: int) -> list[int]:
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(pid) for pid in text.split()]
