"""The configuration of docs/operate/deploy/pgbouncer.md, with a server behind it."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg

from tests.deploy.files import fence, program
from tests.support.ports import free_port
from tests.support.server import Server, until


@contextmanager
def pgbouncer(dsn: str) -> Generator[str]:
    """PgBouncer with the page's settings, in front of a database; yields the address."""
    directory = Path(tempfile.mkdtemp(prefix="queen-"))
    port = free_port()
    database = urlsplit(dsn)
    socket = parse_qs(database.query)["host"][0]
    text = fence("pgbouncer.md", "ini", "[pgbouncer]")
    for old, new in {
        "queen = host=10.0.0.21 port=5432 dbname=queen": (
            f"queen = host={socket} port=5432 dbname={database.path[1:]} user=postgres"
        ),
        "listen_addr = 0.0.0.0": "listen_addr = 127.0.0.1",
        "listen_port = 6432": f"listen_port = {port}",
        "/etc/pgbouncer/userlist.txt": str(directory / "userlist.txt"),
    }.items():
        assert old in text
        text = text.replace(old, new)
    (directory / "userlist.txt").write_text('"queen" "secret"\n')
    (directory / "pgbouncer.ini").write_text(text + "unix_socket_dir =\n")
    # Like PostgreSQL, PgBouncer does not run as root.
    account = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    if account:
        for path in (directory, *directory.iterdir()):
            os.chown(path, account.pw_uid, account.pw_gid)
    process = subprocess.Popen(
        [program("pgbouncer"), "--quiet", str(directory / "pgbouncer.ini")],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[account.pw_gid] if account else None,
    )
    try:
        yield f"postgresql://queen:secret@127.0.0.1:{port}/queen"
    finally:
        process.kill()
        process.wait(20)
        shutil.rmtree(directory, ignore_errors=True)


async def test_a_server_works_through_pgbouncer_as_the_page_configures_it(dsn: str) -> None:
    with pgbouncer(dsn) as address:

        async def accepts() -> bool:
            try:
                psycopg.connect(address, connect_timeout=1).close()
            except psycopg.OperationalError:
                return False
            return True

        await until(accepts, seconds=20)
        settings = {"QUEEN_DB_PGBOUNCER": "true", "QUEEN_AUTO_MIGRATE": "false"}
        async with Server(address, settings) as server:
            items = [{"queue": "orders", "payload": n} for n in range(3)]
            assert (await server.post("/push", {"items": items})).status == 201
            popped = (await server.get("/pop/queue/orders", batch=3)).body["messages"]
            acks = [{"id": each["id"], "leaseId": each["leaseId"]} for each in popped]
            acked = await server.post("/ack/batch", {"acknowledgments": acks})
            assert acked.status == 200
            assert [each["data"] for each in popped] == [0, 1, 2]
            empty = await server.get("/pop/queue/orders", wait="true", timeout=300)
            assert empty.status == 204
