"""TLS to PostgreSQL: `verify-full` accepts the right server and rejects every other one."""

import os
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from queen import errors
from queen.arrow.database import connect
from queen.settings import Settings
from queen.store.connection.notifications import Notifications
from queen.store.migrations import migrate
from queen.store.store import Store
from tests.support.certificates import Authority, Pair
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.server import Server, until


class Encrypted(Postgres):
    """PostgreSQL with a certificate for localhost, 127.0.0.1. `guarded`: clients need one too."""

    def __init__(self) -> None:
        self.port = free_port()
        super().__init__(port=self.port)
        self.authority = Authority(self.directory)
        pair = self.authority.sign("server")
        self.client: Pair = self.authority.sign("postgres")
        for file in (pair.certificate, pair.key, self.authority.certificate):
            if self._account:
                os.chown(file, self._account.pw_uid, self._account.pw_gid)
        self.settings |= {
            "listen_addresses": "127.0.0.1,127.0.0.2",
            "ssl": "on",
            "ssl_cert_file": str(pair.certificate),
            "ssl_key_file": str(pair.key),
            "ssl_ca_file": str(self.authority.certificate),
        }

    def _initdb(self) -> None:
        super()._initdb()
        rules = self.data / "pg_hba.conf"
        rules.write_text("hostssl guarded all 127.0.0.1/32 cert\n" + rules.read_text())

    def tls(self, **other: str) -> Settings:
        """Settings of `verify-full`."""
        told = {
            "DATABASE_URL": self.dsn(),
            "PG_SSLMODE": "verify-full",
            "PG_SSLROOTCERT": str(self.authority.certificate),
        }
        return Settings.from_environ({**told, **other})


@pytest.fixture(scope="module")
def encrypted() -> Iterator[Encrypted]:
    with Encrypted() as postgres:
        yield postgres


async def reaches(settings: Settings) -> bool:
    """Whether a store connects. Raises DatabaseUnavailable if not."""
    store = await Store.open(settings.dsn)
    try:
        return bool(await store.database.fetch("server_state"))
    finally:
        await store.close()


async def test_every_connection_of_a_server_is_encrypted(encrypted: Encrypted) -> None:
    dsn = encrypted.create_database("served")
    tls = {"PG_SSLMODE": "verify-full", "PG_SSLROOTCERT": str(encrypted.authority.certificate)}
    async with Server(dsn, tls) as server:
        pushed = await server.post("/push", {"items": [{"queue": "q", "payload": 1}]})
        assert pushed.status == 201
        watcher = await asyncpg.connect(encrypted.dsn("served"))
        try:

            async def is_listening() -> bool:
                rows = await watcher.fetch(
                    "select a.application_name as name, s.ssl from pg_stat_activity a"
                    " join pg_stat_ssl s using (pid)"
                    " where a.datname = 'served' and a.pid <> pg_backend_pid()"
                )
                assert all(row["ssl"] for row in rows)
                return {"queen", "queen notifications"} <= {row["name"] for row in rows}

            await until(is_listening, seconds=20)
        finally:
            await watcher.close()


async def test_the_variables_mean_the_same_as_parameters_of_the_url(encrypted: Encrypted) -> None:
    root = encrypted.authority.certificate
    by_url = Settings(database_url=f"{encrypted.dsn()}?sslmode=verify-full&sslrootcert={root}")
    parts = Settings.from_environ(
        {
            "PG_HOST": "127.0.0.1",
            "PG_PORT": str(encrypted.port),
            "PG_SSLMODE": "verify-full",
            "PG_SSLROOTCERT": str(root),
        }
    )
    for settings in (by_url, parts, encrypted.tls()):
        assert await reaches(settings)


async def test_the_url_takes_precedence_over_the_variables(
    encrypted: Encrypted, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    root = encrypted.authority.certificate
    url = f"{encrypted.dsn()}?sslrootcert={root}"
    assert await reaches(encrypted.tls(DATABASE_URL=url, PG_SSLROOTCERT=str(other.certificate)))


async def test_another_authority_is_rejected(encrypted: Encrypted, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    settings = encrypted.tls(PG_SSLROOTCERT=str(other.certificate))
    with pytest.raises(errors.DatabaseUnavailable, match="certificate verify failed"):
        await reaches(settings)
    with pytest.raises(errors.DatabaseUnavailable, match="certificate verify failed"):
        await migrate(settings.dsn)
    with pytest.raises(errors.DatabaseUnavailable, match="certificate verify failed"):
        connect(settings.dsn)


async def test_another_host_name_is_rejected(encrypted: Encrypted) -> None:
    url = encrypted.dsn().replace("127.0.0.1", "127.0.0.2")
    with pytest.raises(errors.DatabaseUnavailable, match=r"IP address mismatch"):
        await reaches(encrypted.tls(DATABASE_URL=url))
    with pytest.raises(errors.DatabaseUnavailable, match=r"127\.0\.0\.2"):
        connect(encrypted.tls(DATABASE_URL=url).dsn)
    # Only the name is wrong: without checking it, the same server is accepted.
    assert await reaches(encrypted.tls(DATABASE_URL=url, PG_SSLMODE="verify-ca"))


async def test_a_server_without_tls_is_rejected(encrypted: Encrypted) -> None:
    with Postgres(port=free_port()) as plain:
        settings = encrypted.tls(DATABASE_URL=plain.dsn())
        with pytest.raises(errors.DatabaseUnavailable, match="SSL"):
            await reaches(settings)
        with pytest.raises(errors.DatabaseUnavailable, match="SSL"):
            await migrate(settings.dsn)
        with pytest.raises(errors.DatabaseUnavailable, match="SSL"):
            connect(settings.dsn)
        listening = Notifications(settings.dsn, debounce_seconds=0.01, heard=lambda _: None)
        with pytest.raises(ConnectionError, match="SSL"):
            await listening._hosts.connect()  # pyright: ignore[reportPrivateUsage]


async def test_a_client_certificate_is_sent_if_required(encrypted: Encrypted) -> None:
    encrypted.create_database("guarded")
    guarded = encrypted.dsn("guarded")
    with pytest.raises(errors.DatabaseUnavailable, match="certificate"):
        await reaches(encrypted.tls(DATABASE_URL=guarded))
    shown = encrypted.tls(
        DATABASE_URL=guarded,
        PG_SSLCERT=str(encrypted.client.certificate),
        PG_SSLKEY=str(encrypted.client.key),
    )
    assert await reaches(shown)
    with connect(shown.dsn) as connection:
        assert connection.execute("select 1 as one").fetchone() == {"one": 1}


def test_a_missing_file_or_an_invalid_mode_is_reported() -> None:
    with pytest.raises(errors.BadSettings, match="PG_SSLMODE"):
        Settings.from_environ({"PG_SSLMODE": "verify_full"})
    with pytest.raises(errors.BadSettings, match="database URL"):
        _ = Settings(database_url="host=db dbname=queen", pg_sslmode="verify-full").dsn
