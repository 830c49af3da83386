"""The database nodes of ha.yaml: a synchronous standby, a failover, and a new standby."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from queen.cli.generate.compose import POSTGRES_NODE, REPLICATION
from tests.support.ports import free_port
from tests.support.postgres import bindir
from tests.support.server import until

ENTRYPOINT = """\
#!/bin/sh
# As in the official image: create the database, prepare it without TCP, then start it.
set -eu
export PGHOST="$SOCKETS" PGPORT="$PORT"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf %s "$POSTGRES_PASSWORD" >"$SOCKETS/password"
  initdb --username "$POSTGRES_USER" --pwfile "$SOCKETS/password" --auth-local=trust \\
    --auth-host=scram-sha-256 >/dev/null
  pg_ctl --wait --silent --options "-p $PORT -k $SOCKETS -c listen_addresses=" start
  createdb --username "$POSTGRES_USER" "$POSTGRES_DB"
  . "$SOCKETS/replication.sh"
  pg_ctl --wait --silent --mode fast stop
fi
exec postgres -p "$PORT" -k "$SOCKETS" -c listen_addresses=127.0.0.1
"""


class Node:
    """One of the two nodes, as its container would start it."""

    def __init__(self, directory: Path, *, is_first: bool) -> None:
        self.directory = directory / ("first" if is_first else "second")
        self.directory.mkdir()
        self.port = free_port()
        self._is_first = is_first
        self._process: subprocess.Popen[bytes] | None = None
        (self.directory / "docker-entrypoint.sh").write_text(ENTRYPOINT)
        (self.directory / "docker-entrypoint.sh").chmod(0o755)
        (self.directory / "replication.sh").write_text(REPLICATION)
        (self.directory / "node").write_text(POSTGRES_NODE)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def start(self, peer: "Node", peer_seconds: int = 60) -> None:
        account = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        if account:
            for path in (self.directory, *self.directory.iterdir()):
                os.chown(path, account.pw_uid, account.pw_gid)
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", self.directory / "node"],
                env={
                    "PATH": f"{self.directory}:{bindir()}:{os.environ['PATH']}",
                    "PGDATA": str(self.data),
                    "PORT": str(self.port),
                    "SOCKETS": str(self.directory),
                    "PEER": "127.0.0.1",
                    "PGPORT": str(peer.port),
                    "IS_FIRST": "yes" if self._is_first else "no",
                    "PEER_SECONDS": str(peer_seconds),
                    "PGPASSWORD": "it's secret",
                    "POSTGRES_PASSWORD": "it's secret",
                    "POSTGRES_USER": "queen",
                    "POSTGRES_DB": "queen",
                },
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[account.pw_gid] if account else None,
            )

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(20)
            self._process = None

    def value(self, query: str) -> object:
        """The first value of a query, over TCP with the password."""
        address = f"host=127.0.0.1 port={self.port} user=queen dbname=queen connect_timeout=2"
        with psycopg.connect(address, password="it's secret", autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            row = cursor.fetchone() if cursor.description else None
            return row and row[0]

    async def until(self, query: str) -> None:
        """Wait until a query returns true."""

        async def is_true() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, (self.directory / "log").read_text()
            try:
                return self.value(query) is True
            except psycopg.OperationalError:
                return False

        await until(is_true, seconds=40)


CONFIRMS = "select count(*) = 1 from pg_stat_replication where sync_state = 'quorum'"


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    directory = Path(tempfile.mkdtemp(prefix="queen-"))
    directory.chmod(0o755)
    first, second = Node(directory, is_first=True), Node(directory, is_first=False)
    yield first, second
    first.kill()
    second.kill()
    shutil.rmtree(directory)


@pytest.mark.nightly
async def test_the_nodes_survive_the_loss_of_either(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    first.start(second, peer_seconds=0)
    second.start(first)
    await first.until(CONFIRMS)
    first.value("create table kept (number int)")
    first.value("insert into kept values (1)")

    first.kill()
    assert second.value("select pg_promote()") is True
    shutil.rmtree(first.data)
    first.start(second)
    await second.until(CONFIRMS)

    second.value("insert into kept values (2)")
    assert first.value("select pg_is_in_recovery()") is True
    assert second.value("select array_agg(number order by number) from kept") == [1, 2]

    # All machines restart, and the first node has lost its data: its peer is not ready yet.
    second.kill()
    first.kill()
    shutil.rmtree(first.data)
    first.start(second)
    second.start(first)
    await second.until(CONFIRMS)
    await first.until("select count(*) = 2 from kept")
