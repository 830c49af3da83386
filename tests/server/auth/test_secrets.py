"""Secrets appear in no response, log, argument or table."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import jwt
import pytest

from tests.support.callers import Caller, make_key
from tests.support.postgres import Server as Database, bindir
from tests.support.prefork import SOURCE, run_queen
from tests.support.server import Server

CANARY = "canary-5f1b7c"
PASSWORD = f"{CANARY}-password"
SECRET = f"{CANARY}-secret-of-more-than-thirty-two-bytes"


@pytest.fixture
def environment(dsn: str) -> dict[str, str]:
    # PostgreSQL trusts its socket and ignores the password, but the server still sends it.
    return {
        "DATABASE_URL": dsn.replace("//postgres@", f"//postgres:{PASSWORD}@"),
        "PG_PASSWORD": PASSWORD,
        "QUEEN_AUTH": "keys,jwt",
        "HOST": "127.0.0.1",
        "JWT_ALGORITHMS": "HS256",
        "JWT_SECRET": SECRET,
        "JWT_ISSUER": "i",
        "JWT_AUDIENCE": "a",
        "LOG_LEVEL": "debug",
    }


@pytest.fixture
async def server(dsn: str, environment: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(dsn, environment) as server:
        yield server


async def test_no_secret_is_revealed(
    dsn: str, server: Server, environment: dict[str, str], tmp_path: Path
) -> None:
    key = await make_key(dsn)
    told = {"iss": "i", "aud": "a", "sub": "s", "exp": 2**40, "role": "admin"}
    token = jwt.encode(told, SECRET, algorithm="HS256")
    said: list[str] = []
    for caller in (
        Caller(server, key),
        Caller(server, token),
        Caller(server, key[:-1] + "_"),
        Caller(server, token[:-1]),
    ):
        for method, path in (
            ("GET", "/auth/me"),
            ("GET", "/health"),
            ("GET", "/readyz?verbose"),
            ("GET", "/system/config"),
            ("GET", "/tokens"),
            ("GET", "/audit"),
            ("POST", "/configure"),
            ("POST", "/push"),
            ("GET", "/no/such/route"),
            ("PATCH", "/push"),
            ("GET", f"/pop?{'x' * 100}=1"),
        ):
            reply = await caller.request(method, path)
            said += [str(reply.body), str(reply.headers)]
    config = await asyncio.to_thread(_run, ["config", "show", "--effective"], environment)
    arguments = Path(f"/proc/{server.pid}/cmdline").read_text()  # noqa: ASYNC240 - a file of the kernel
    dump = await asyncio.to_thread(_dump, dsn)
    for what, text in {
        "answers": "".join(said),
        "log": server.log,
        "config": config,
        "arguments": arguments,
        "dump": dump,
    }.items():
        assert CANARY not in text, what
        assert key.rpartition("_")[2] not in text, what
        assert token.rpartition(".")[2] not in text, what
    assert "JWT_SECRET=****" in config


async def test_a_database_dump_contains_no_working_key(dsn: str, server: Server) -> None:
    """The stored form of a key is rejected as a key."""
    await make_key(dsn)
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch("select id, encode(digest, 'hex') as digest from queen.keys")
    await connection.close()
    for row in rows:
        for text in (row["digest"], f"qk_{row['id']}_{row['digest']}", f"qk_{row['id']}_"):
            assert (await Caller(server, text).get("/auth/me")).status == 401


async def test_without_its_database_a_server_fails_without_showing_the_password(
    postgres: Database,
) -> None:
    dsn = postgres.dsn("none").replace("//postgres@", f"//postgres:{PASSWORD}@")
    for variables in (
        {"DATABASE_URL": dsn},
        {"DATABASE_URL": f"postgresql://u:{PASSWORD}@127.0.0.1:1/x"},
        {"DATABASE_URL": f"nonsense:{PASSWORD}"},
        {"PG_HOST": "127.0.0.1", "PG_PORT": "1", "PG_PASSWORD": PASSWORD},
        {"PG_PORT": PASSWORD},
        {"JWT_LEEWAY_SECONDS": SECRET},
    ):
        for command in (["serve"], ["migrate", "status"], ["token", "ls"]):
            said = await asyncio.to_thread(_run, command, {"NUM_WORKERS": "1", **variables}, False)
            assert said
            assert CANARY not in said, (variables, command, said)


def _run(command: list[str], environment: dict[str, str], is_good: bool = True) -> str:
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), **environment}
    ended = run_queen(*command, environment=variables)
    assert (ended.code == 0) is is_good, ended.err
    return ended.out + ended.err


def _dump(dsn: str) -> str:
    command = [bindir() / "pg_dump", "--data-only", "--schema=queen", dsn]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
