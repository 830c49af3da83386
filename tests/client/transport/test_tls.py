"""The SDK and the command with a server that requires client certificates."""

import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from queen import Queen, SyncQueen, errors
from queen.client.config import Config
from tests.cli.shell import Shell
from tests.server.auth.test_boot import TlsServer
from tests.support.certificates import Authority, Pair


class Files:
    """A server's authority, a certificate that it signed, and one of another authority."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.server = self.authority.sign("server")
        self.client = self.authority.sign("client")
        self.stranger_authority = Authority(folder, "stranger")
        self.stranger = self.stranger_authority.sign("foreigner")

    def options(self, pair: Pair | None) -> dict[str, str]:
        shown = {} if pair is None else _shown(pair)
        return {"ca_file": str(self.authority.certificate), **shown}


def _shown(pair: Pair) -> dict[str, str]:
    return {"client_certificate": str(pair.certificate), "client_key": str(pair.key)}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
async def locked(dsn: str, files: Files) -> AsyncIterator[TlsServer]:
    """A server that accepts only clients with a certificate of its authority."""
    environment: Mapping[str, str] = {
        "QUEEN_TLS_CERTIFICATE": str(files.server.certificate),
        "QUEEN_TLS_KEY": str(files.server.key),
        "QUEEN_TLS_CLIENT_CA": str(files.authority.certificate),
    }
    known = ssl.create_default_context(cafile=files.authority.certificate)
    known.load_cert_chain(*files.client)
    async with TlsServer(dsn, environment, known) as server:
        yield server


def _client(server: TlsServer, options: Mapping[str, str]) -> Queen:
    return Queen({"url": server.base_url, "retry_attempts": 1, **options})


async def test_a_client_with_a_certificate_is_accepted(locked: TlsServer, files: Files) -> None:
    async with _client(locked, files.options(files.client)) as queen:
        await queen.queue("q").push([{"data": 1}])
        assert [each.data for each in await queen.queue("q").pop()] == [1]


def test_a_combined_file_works_in_a_sync_client(files: Files, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(files.client.certificate.read_text() + files.client.key.read_text())
    with SyncQueen("https://localhost:1", client_certificate=str(both)) as queen:
        assert queen.config.client_certificate == str(both)


@pytest.mark.parametrize("shows", ["nothing", "a stranger's"])
async def test_a_client_without_a_certificate_gets_a_clear_error(
    locked: TlsServer, files: Files, shows: str
) -> None:
    pair = None if shows == "nothing" else files.stranger
    async with _client(locked, files.options(pair)) as queen:
        # TLS 1.3: the client has finished its handshake before the server rejects it.
        with pytest.raises(errors.ConnectionLost, match="check client_certificate"):
            await queen.queue("q").push([{"data": 1}])


async def test_a_server_of_another_authority_is_rejected(locked: TlsServer, files: Files) -> None:
    other = str(files.stranger_authority.certificate)
    for options in ({"ca_file": other}, {}):
        async with _client(locked, {**options, **_shown(files.client)}) as queen:
            with pytest.raises(errors.ServerUnreachable, match="certificate verify failed"):
                await queen.queue("q").push([{"data": 1}])


def test_unusable_files_are_named(files: Files, tmp_path: Path) -> None:
    with pytest.raises(errors.BadSettings, match="client_key needs client_certificate"):
        Queen("https://localhost:1", client_key=str(files.client.key))
    with pytest.raises(errors.BadSettings, match=r"ca_file /none\.pem: No such file"):
        Queen("https://localhost:1", ca_file="/none.pem")
    with pytest.raises(errors.BadSettings, match=r"client_certificate /none\.pem: No such file"):
        Queen("https://localhost:1", client_certificate="/none.pem")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    with pytest.raises(errors.BadSettings, match="ca_file"):
        Queen("https://localhost:1", ca_file=str(garbage))


def test_the_environment_names_the_files() -> None:
    config = Config.from_env(
        {
            "QUEEN_CA_FILE": "ca.pem",
            "QUEEN_CLIENT_CERTIFICATE": "client.pem",
            "QUEEN_CLIENT_KEY": "client.key",
        }
    )
    assert (config.ca_file, config.client_certificate, config.client_key) == (
        "ca.pem", "client.pem", "client.key",
    )  # fmt: skip


async def test_the_command_sends_a_certificate_by_option_environment_and_context(
    locked: TlsServer, files: Files, tmp_path: Path
) -> None:
    shell = Shell(locked, tmp_path)
    certificate, key = map(str, files.client)
    authority = str(files.authority.certificate)

    by_option = ("--ca-file", authority, "--client-cert", certificate, "--client-key", key)
    assert (await shell.run(*by_option, "queue", "ls", "-o", "json")).out == "[]\n"
    environment = {
        "QUEEN_CA_FILE": authority,
        "QUEEN_CLIENT_CERTIFICATE": certificate,
        "QUEEN_CLIENT_KEY": key,
    }
    for command in (("queue", "ls"), ("health",), ("doctor",)):
        ended = await shell.run(*command, **environment)
        assert ended.code == 0, ended
    add = ("context", "add", "prod", "--server", locked.base_url)
    assert (await shell.run(*add, *by_option, QUEEN_BASE_URL="")).code == 0
    assert (await shell.run("health", QUEEN_BASE_URL="")).code == 0
    assert (await shell.run("queue", "ls", QUEEN_BASE_URL="")).code == 0

    without = await shell.run("--ca-file", authority, "queue", "ls", QUEEN_TIMEOUT="5s")
    assert without.code == 1
    assert "check client_certificate and client_key" in without.err
