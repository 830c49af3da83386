"""A confirmed commit of a pipeline is on disk, whatever the database defaults to."""

# pyright: basic

import os
import signal

import psycopg

from queen.arrow.database import call, connect
from queen.lake.database_catalog import _url
from tests.spark import filling
from tests.spark.databases import migrated
from tests.support.postgres import Postgres


def test_a_confirmed_statement_survives_a_crash_of_a_database_with_asynchronous_commits() -> None:
    with Postgres({"synchronous_commit": "off", "wal_writer_delay": "10s"}) as server:
        dsn = migrated(server)
        filling.make(dsn, "a")
        server.execute("checkpoint")
        writer = int(
            str(server.value("select pid from pg_stat_activity where backend_type = 'walwriter'"))
        )
        os.kill(writer, signal.SIGSTOP)  # It would write the commit a moment later.
        with connect(dsn) as connection:
            call(connection, "begin_stream", "ours", 1, 3, 3, "{}")
        with psycopg.connect(dsn) as other:
            other.execute("insert into queen.renumberings (at) values (now())")
        server.kill()
        server.start()

        with connect(dsn) as connection:
            assert len(call(connection, "begin_stream", "ours", 1, 9, 9, "{}")) == 1
            (row,) = connection.execute(
                b"select (select min(start_xid::text::bigint) from queen.streams) as ours,"
                b" (select count(*) from queen.renumberings) as others"
            ).fetchall()
        assert row == {"ours": 3, "others": 0}  # The other one proves that a commit can be lost.


def test_a_batch_is_published_durably_behind_a_proxy_that_drops_settings(dsn: str) -> None:
    filling.make(dsn, "a")
    with psycopg.connect(dsn, options="-c synchronous_commit=off") as connection:
        connection.execute(
            "select queen.publish(null, (select id from queen.queues), 1, '{}', '{}', null, null)"
        )
        row = connection.execute("show synchronous_commit").fetchone()

    assert row == ("on",)


def test_the_catalog_of_a_lake_commits_synchronously() -> None:
    url = _url("postgresql://example/db?options=-c%20work_mem%3D8MB")

    assert "synchronous_commit%3Don" in url
    assert "work_mem%3D8MB" in url
