"""The server is an Iceberg REST catalog: pyiceberg reads and commits with a token."""

# pyright: basic
import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    UnauthorizedError,
)
from pyiceberg.table import Table
from pyiceberg.types import StringType

from queen import errors
from queen.lake import CatalogOptions
from queen.lake.day_files import DayFiles
from queen.lake.iceberg import IcebergLake
from queen.lake.ledger import Ledger
from queen.lake.table_service import TableService
from tests.spark.databases import migrated
from tests.spark.lakes.test_commits import compact
from tests.spark.lakes.test_lakes import archive, rows
from tests.spark.log import Log
from tests.support.callers import KEYS, Caller, make_key
from tests.support.postgres import Postgres
from tests.support.server import Server

TABLE = "queen.shop.orders"
IDENTIFIER = ("queen", "shop.orders")


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS, imports=["queen.lake.table_service"]) as server:
        yield server


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Iterator[IcebergLake]:
    """The archive of one queue, and a table of another one beside it."""
    for queue in ("shop.orders", "bank.payments"):
        with Log(dsn, queue) as log, Ledger(dsn) as ledger:
            log.push("a", [1])
            ledger.open(queue, queue, "iceberg", str(tmp_path / queue))
        with IcebergLake(dsn, queue, str(tmp_path / queue), make=True) as lake:
            archive(lake, 1)
    with IcebergLake(dsn, "shop.orders", str(tmp_path / "shop.orders")) as lake:
        yield lake


def append(lake: IcebergLake, table: Table, first: int) -> None:
    """Add a file with one message, as an engine does. pyiceberg can't write by day itself."""
    with DayFiles(lake.folder, f"{first:010d}-00000") as files:
        files.write(rows(first, 1))
    table.add_files([file.path for file in files.closed], check_duplicate_files=False)


async def key_of(dsn: str, **limits: Any) -> str:  # noqa: ANN401
    return await make_key(dsn, **limits)


def catalog_of(server: Server, token: str) -> RestCatalog:
    return RestCatalog("queen", uri=f"{server.base_url}/iceberg", token=token)


async def in_thread(work: Callable[[], Any]) -> Any:  # noqa: ANN401
    """pyiceberg blocks, and the server of this test needs the event loop for nothing else."""
    return await asyncio.to_thread(work)


async def test_a_reader_needs_only_a_token(dsn: str, server: Server, lake: IcebergLake) -> None:
    token = await key_of(dsn, role="read-only", scopes=[{"queue": "shop.*"}])

    def read() -> tuple[list[Any], pa.Table]:
        catalog = catalog_of(server, token)
        return catalog.list_tables("queen"), catalog.load_table(IDENTIFIER).scan().to_arrow()

    tables, messages = await in_thread(read)

    assert tables == [IDENTIFIER]
    assert sorted(messages.column("offset").to_pylist()) == list(range(100))


async def test_tables_of_another_tenant_are_invisible(
    dsn: str, server: Server, lake: IcebergLake
) -> None:
    token = await key_of(dsn, scopes=[{"queue": "shop.*"}])

    def look() -> None:
        catalog = catalog_of(server, token)
        for name in ("bank.payments", "nothing"):
            with pytest.raises(NoSuchTableError):
                catalog.load_table(("queen", name))
            assert not catalog.table_exists(("queen", name))
        assert catalog.table_exists(IDENTIFIER)

    await in_thread(look)
    everything = catalog_of(server, await key_of(dsn))
    assert len(await in_thread(lambda: everything.list_tables("queen"))) == 2


async def test_a_commit_of_another_tenant_is_rejected(
    dsn: str, server: Server, lake: IcebergLake
) -> None:
    admin, shop = await key_of(dsn), await key_of(dsn, scopes=[{"queue": "shop.*"}])
    path = "/iceberg/v1/namespaces/queen/tables/bank.payments"

    reply = await Caller(server, shop).request("POST", path, {"updates": []})
    assert (reply.status, reply.body["error"]["type"]) == (404, "NoSuchTableException")
    reply = await Caller(server, admin).request("POST", path, {"updates": []})
    assert reply.status == 200


async def test_a_missing_or_weak_token_is_rejected(
    dsn: str, server: Server, lake: IcebergLake
) -> None:
    reader = await key_of(dsn, role="read-only")

    def attempts() -> None:
        with pytest.raises(UnauthorizedError):
            catalog_of(server, "qk_wrong").list_tables("queen")
        table = catalog_of(server, reader).load_table(IDENTIFIER)
        with pytest.raises(ForbiddenError):
            append(lake, table, 1_000)

    await in_thread(attempts)


async def test_a_commit_is_visible_to_the_archive_and_in_the_audit_log(
    dsn: str, server: Server, lake: IcebergLake
) -> None:
    token = await key_of(dsn, scopes=[{"queue": "shop.*"}])

    def commit() -> None:
        table = catalog_of(server, token).load_table(IDENTIFIER)
        table.update_schema().add_column("region", StringType()).commit()

    await in_thread(commit)

    assert "region" in lake.load().schema().column_names
    archive(lake, 2)
    assert lake.load().scan().to_arrow().num_rows == 200
    with Log(dsn, "x") as log:
        (row,) = log.execute("select queue, record from queen.audit where action like '%iceberg%'")
    assert row["queue"] == "shop.orders"
    assert TABLE in row["record"]


@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.nightly)])
@pytest.mark.timeout(1800)
async def test_concurrent_commits_lose_no_snapshot(
    dsn: str, server: Server, lake: IcebergLake, count: int
) -> None:
    """Each client starts to commit at the same moment, and repeats its commit after a conflict."""
    token = await key_of(dsn, scopes=[{"queue": "shop.*"}])
    before = len(lake.load().snapshots())
    start = threading.Barrier(count)
    conflicts: list[int] = []

    def work(number: int) -> None:
        catalog = catalog_of(server, token)
        table = catalog.load_table(IDENTIFIER)
        start.wait(timeout=600)
        while not is_committed(lake, table, 1_000 + number):
            conflicts.append(number)
            table = catalog.load_table(IDENTIFIER)

    with ThreadPoolExecutor(count) as pool:
        clients = [pool.submit(work, number) for number in range(count)]
        await in_thread(lambda: [client.result() for client in clients])

    print(f"{count} clients: {len(conflicts)} conflicts")
    assert conflicts  # They did meet.
    table = lake.load()
    assert len(table.snapshots()) == before + count
    found = sorted(table.scan(row_filter="offset >= 1000").to_arrow().column("offset").to_pylist())
    assert found == list(range(1_000, 1_000 + count))


def is_committed(lake: IcebergLake, table: Table, first: int) -> bool:
    """Commit a file once. Returns False if another client was first."""
    # pyiceberg would else repeat the commit by itself, and the test could not count it.
    table.metadata.properties["commit.retry.num-retries"] = "0"
    try:
        append(lake, table, first)
    except CommitFailedException:
        return False
    return True


async def test_a_client_cannot_move_files_or_the_batch_number(
    dsn: str, server: Server, lake: IcebergLake
) -> None:
    token = await key_of(dsn)

    def attempts() -> None:
        table = catalog_of(server, token).load_table(IDENTIFIER)
        for name in ("queen.batch", "write.metadata.path"):
            with pytest.raises(BadRequestError):
                table.transaction().set_properties({name: "x"}).commit_transaction()
        with pytest.raises(BadRequestError):
            table.transaction().remove_properties("queen.batch").commit_transaction()

    await in_thread(attempts)
    path = "/iceberg/v1/namespaces/queen/tables/shop.orders"
    moved = {"updates": [{"action": "set-location", "location": "/etc"}]}
    assert (await Caller(server, token).request("POST", path, moved)).status == 400
    assert lake.last() is not None


@pytest.mark.parametrize(
    "name",
    [
        "py-io-impl",
        "write.py-location-provider.impl",
        "write.data.path",
        "s3.endpoint",
        "s3.retry-strategy-impl",
        "gcs.service.host",
        "commit.retry.num-retries",
        "queen.batch",
    ],
)
async def test_a_property_cannot_make_the_server_import_or_call_anything(
    dsn: str, server: Server, lake: IcebergLake, name: str
) -> None:
    """`py-io-impl=http.HTTPStatus` used to return the DSN with its password in the error."""
    path = "/iceberg/v1/namespaces/queen/tables/shop.orders"
    update = {"action": "set-properties", "updates": {name: "http.HTTPStatus"}}

    reply = await Caller(server, await key_of(dsn)).request("POST", path, {"updates": [update]})

    assert reply.status == 400
    assert "postgresql" not in str(reply.body)
    assert lake.load().properties.get(name) != "http.HTTPStatus"


async def test_properties_that_are_stored_already_are_not_used(
    dsn: str, server: Server, lake: IcebergLake
) -> None:
    with lake.load().transaction() as transaction:
        transaction.set_properties({"py-io-impl": "http.HTTPStatus"})
    path = "/iceberg/v1/namespaces/queen/tables/shop.orders"

    reply = await Caller(server, await key_of(dsn)).request("GET", path)

    assert reply.status == 200
    assert lake.last() is not None


@pytest.mark.parametrize(
    "manifest_list",
    [
        "/etc/passwd",
        "{location}/metadata/../../bank.payments/metadata/x.avro",
        "s3://other/metadata/x.avro",
    ],
)
async def test_a_snapshot_cannot_name_files_outside_its_table(
    dsn: str, server: Server, lake: IcebergLake, manifest_list: str
) -> None:
    """The archive deletes the files of expired snapshots with its own rights."""
    table = lake.load()
    current = table.current_snapshot()
    assert current is not None
    location = table.location().rstrip("/")
    snapshot = {
        "snapshot-id": 17,
        "parent-snapshot-id": current.snapshot_id,
        "sequence-number": 99,
        "timestamp-ms": current.timestamp_ms + 1,
        "manifest-list": manifest_list.format(location=location),
        "summary": {"operation": "append"},
    }
    path = "/iceberg/v1/namespaces/queen/tables/shop.orders"
    body = {"updates": [{"action": "add-snapshot", "snapshot": snapshot}]}

    reply = await Caller(server, await key_of(dsn)).request("POST", path, body)

    assert reply.status == 400, reply.body
    assert len(lake.load().snapshots()) == len(table.snapshots())


async def test_files_of_another_table_are_not_read(
    dsn: str, server: Server, lake: IcebergLake, tmp_path: Path
) -> None:
    token = await key_of(dsn)
    with IcebergLake(dsn, "bank.payments", str(tmp_path / "bank.payments")) as other:
        foreign = other.files()[0].path

    def add() -> None:
        table = catalog_of(server, token).load_table(IDENTIFIER)
        table.add_files([foreign], check_duplicate_files=False)

    await in_thread(add)

    with pytest.raises(errors.InvalidOption, match="outside its location"):
        lake.files()


async def test_a_commit_needs_the_permission_to_destroy(
    dsn: str, server: Server, lake: IcebergLake
) -> None:
    token = await key_of(dsn, role="read-write", scopes=[{"queue": "shop.*"}])
    path = "/iceberg/v1/namespaces/queen/tables/shop.orders"
    update = {"action": "remove-snapshot-ref", "ref-name": "main"}

    reply = await Caller(server, token).request("POST", path, {"updates": [update]})

    assert reply.status == 403
    assert lake.load().current_snapshot() is not None


async def test_an_unmet_requirement_is_a_conflict(
    dsn: str, server: Server, lake: IcebergLake
) -> None:
    token = await key_of(dsn)
    path = "/iceberg/v1/namespaces/queen/tables/shop.orders"
    stale = {
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}],
        "updates": [{"action": "set-properties", "updates": {"comment": "x"}}],
    }

    reply = await Caller(server, token).request("POST", path, stale)

    assert (reply.status, reply.body["error"]["type"]) == (409, "CommitFailedException")
    assert "comment" not in lake.load().properties


@pytest.mark.parametrize(
    "body",
    [
        {"updates": [{"action": "dance"}]},
        {"updates": [{}]},
        {"updates": [{"action": ["set-properties"]}]},
        {"updates": [{"action": "set-properties", "updates": 5}]},
        {"updates": [{"action": "remove-properties", "removals": 5}]},
        {"updates": [{"action": "remove-properties", "removals": [[]]}]},
        {"updates": [{"action": "add-snapshot", "snapshot": 5}]},
        {"updates": [{"action": "set-default-sort-order", "sort-order-id": 1, "updates": 5}]},
        {"requirements": [{"type": 5}]},
    ],
)
async def test_a_malformed_commit_is_rejected(
    dsn: str, server: Server, lake: IcebergLake, body: dict[str, Any]
) -> None:
    path = "/iceberg/v1/namespaces/queen/tables/shop.orders"

    reply = await Caller(server, await key_of(dsn)).request("POST", path, body)

    assert (reply.status, reply.body["error"]["code"]) == (400, 400)


async def test_a_missing_namespace_is_named(dsn: str, server: Server) -> None:
    caller = Caller(server, await key_of(dsn))
    for path, kind in (
        ("/namespaces/nothing", "NoSuchNamespaceException"),
        ("/namespaces/nothing/tables", "NoSuchNamespaceException"),
        ("/namespaces/nothing/tables/x", "NoSuchTableException"),
        ("/namespaces/queen/tables/x", "NoSuchTableException"),
    ):
        reply = await caller.request("GET", f"/iceberg/v1{path}")
        assert (reply.status, reply.body["error"]["type"]) == (404, kind)


async def test_a_commit_whose_connection_is_lost_has_an_unknown_state(
    dsn: str, server: Server, lake: IcebergLake
) -> None:
    """After another error, a client deletes the files that the commit may have added."""
    with Log(dsn, "x") as log:
        log.execute(
            "create function public.lose () returns trigger language plpgsql as $$ begin"
            " perform pg_terminate_backend(pg_backend_pid()); return new; end $$"
        )
        log.execute(
            "create trigger lose before update on queen.iceberg_tables"
            " for each row execute function public.lose()"
        )
    path = "/iceberg/v1/namespaces/queen/tables/shop.orders"
    body = {"updates": [{"action": "set-properties", "updates": {"comment": "x"}}]}

    reply = await Caller(server, await key_of(dsn)).request("POST", path, body)

    assert (reply.status, reply.body["error"]["type"]) == (504, "CommitStateUnknownException")
    assert "postgresql" not in str(reply.body)


def test_an_unavailable_database_or_storage_is_an_outage(tmp_path: Path) -> None:
    body = {"updates": [{"action": "set-properties", "updates": {"comment": "x"}}]}
    with Postgres() as postgres:
        dsn = migrated(postgres)
        with IcebergLake(dsn, "orders", str(tmp_path / "orders"), make=True) as lake:
            archive(lake, 1)
        service = TableService(dsn)
        assert service.load("orders")

        metadata = tmp_path / "orders" / "metadata"
        metadata.rename(tmp_path / "moved")
        metadata.touch()
        with pytest.raises(errors.DatabaseUnavailable, match="can't be written"):
            service.commit("orders", body)

        postgres.stop()
        with pytest.raises(errors.DatabaseUnavailable):
            service.load("orders")
        with pytest.raises(errors.DatabaseUnavailable):
            service.commit("orders", body)
        service.close()


async def test_a_lake_is_compacted_through_the_server(
    dsn: str,
    server: Server,
    lake: IcebergLake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The option `catalog` of a pipeline, with this server as the catalog."""
    archive(lake, 2)
    last = lake.last()
    monkeypatch.setenv("CATALOG_TOKEN", await key_of(dsn, scopes=[{"queue": "shop.*"}]))
    options = CatalogOptions(uri=f"{server.base_url}/iceberg", token_env="CATALOG_TOKEN")

    def work() -> int:
        location = lake.storage.location
        with IcebergLake(dsn, "shop.orders", location, catalog=options) as remote:
            assert compact(remote)
            return len(remote.files())

    assert await in_thread(work) == 2
    assert lake.last() == last
    assert lake.load().scan().to_arrow().num_rows == 200
