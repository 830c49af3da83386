"""The server's database role can change neither the schema nor the audit log."""

import asyncio
from uuid import uuid4

import asyncpg
import pytest

from queen import errors
from queen.store.migrations import make_roles, migrate
from tests.support.callers import KEYS, Caller, make_key
from tests.support.postgres import Server as Database
from tests.support.server import Server, until
from tools.sql_reference import PUBLIC, VIEW_ROLES


async def login(database: Database, dsn: str, role: str) -> str:
    """The DSN of a new user who is a member of a role."""
    name = f"user_{uuid4().hex[:12]}"
    database.execute(f"create role {name} login in role {role}")
    return dsn.replace("//postgres@", f"//{name}@")


async def refused(dsn: str, statement: str) -> bool:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    except asyncpg.InsufficientPrivilegeError:
        return True
    except asyncpg.PostgresError as error:
        # Only owners may change objects of another role.
        return "must be owner" in str(error) or "permission denied" in str(error)
    finally:
        await connection.close()
    return False


FORBIDDEN = {
    "queen_app": [
        "create table queen.mine (id int)",
        "drop table queen.segments",
        "alter table queen.keys add column plain text",
        "truncate queen.segments",
        "truncate queen.audit",
        "create or replace function queen.now() returns timestamptz language sql as 'select null'",
        "create function queen.mine() returns int language sql as 'select 1'",
        "drop function queen.audit(text, text, text, text)",
        "update queen.audit set actor = 'nobody'",
        "delete from queen.audit",
        "delete from queen.audit_end",
        "insert into queen.audit_end values (0, '')",
        "update queen.audit_start set id = 1",
        "delete from queen.audit_start",
        "delete from queen.migrations",
        "update queen.migrations set checksum = ''",
        "insert into queen.migrations values ('x', 'y')",
        "delete from queen.keys",
        "create trigger t before insert on queen.keys execute function queen.now()",
        "alter table queen.keys owner to current_user",
        "alter schema queen rename to king",
        "create role king",
        "set role queen_owner",
        "copy queen.keys to program 'cat'",
        "select pg_read_file('/etc/passwd')",
        "alter system set fsync = off",
    ],
    "queen_readonly": [
        "select * from queen.keys",
        "select * from queen.tickets",
        "insert into queen.allowances values ('k', 1, now())",
        "delete from queen.segments",
        "update queen.queues set name = 'x'",
        "delete from queen.audit",
        "select queen.delete_queue('q')",
        "select queen.audit('a', 'b', null, '{}')",
        "create table queen.mine (id int)",
    ],
    "queen_pipeline": [
        "select * from queen.keys",
        "update queen.queues set encrypted = false",
        "update queen.queues set paused = true",
        "update queen.queues set deleted_at = now()",
        "update queen.queues set retention_enabled = true, retention_seconds = 1",
        "update queen.queues set name = 'x'",
        "update queen.consumers set claimed = 0",
        "update queen.consumers set held = false",
        "update queen.consumers set partition_id = 1",
        "update queen.partitions set queue_id = 1",
        "update queen.partitions set name = 'x'",
        "update queen.data_keys set wrapped = ''",
        "update queen.data_keys set queue_id = 1",
        "update queen.duties set holder = 1",
        "update queen.duties set until = now()",
        "update queen.segments set body = ''",
        "delete from queen.segments",
        "delete from queen.consumers",
        "delete from queen.partitions",
        "update queen.deliveries set until = now()",
        "update queen.producers set sequence = 1",
        "insert into queen.outbox (payload, item) values ('1', '{}')",
        "insert into queen.queues default values",
        "update queen.workflow_steps set state = 'completed'",
        "delete from queen.audit",
        "create table queen.mine (id int)",
    ],
    "queen_producer": [
        "select * from queen.segments",
        "select * from queen.queues",
        "select payload from queen.outbox",
        "update queen.outbox set payload = '1'",
        "delete from queen.outbox",
        "insert into queen.segments default values",
        "update queen.appender set is_awake = false",
        "select queen.push(array[1], array[1], array[''::bytea], null, null, null)",
        "select queen.purge('q', null, false, null, null, 1)",
    ],
    "queen_retention": [
        "select * from queen.keys",
        "select * from queen.tickets",
        "insert into queen.segments default values",
        "insert into queen.keys default values",
        "delete from queen.audit",
        "update queen.audit set actor = 'nobody'",
        "delete from queen.migrations",
        "drop table queen.segments",
        "truncate queen.segments",
    ],
}


@pytest.fixture
async def roles(dsn: str) -> str:
    await make_roles(dsn)
    return dsn


@pytest.mark.parametrize("role", FORBIDDEN)
async def test_a_role_cannot_exceed_its_grants(postgres: Database, roles: str, role: str) -> None:
    dsn = await login(postgres, roles, role)
    allowed = [each for each in FORBIDDEN[role] if not await refused(dsn, each)]
    assert allowed == []


async def test_readers_can_read(postgres: Database, roles: str) -> None:
    dsn = await login(postgres, roles, "queen_readonly")
    for statement in ("select * from queen.messages", "select * from queen.audit",
                      "select queen.now()"):  # fmt: skip
        assert not await refused(dsn, statement)


async def test_only_the_documented_roles_can_call_functions_and_read_the_view(
    postgres: Database, roles: str
) -> None:
    connection = await asyncpg.connect(roles)
    await connection.execute("select queen.configure('orders', '', '', '{}', false, null, '{}')")
    documented = {
        "select queen.enqueue('orders', '1')": PUBLIC["enqueue"],
        "select queen.hold('orders', 'mine', '1')": PUBLIC["hold"],
        "select queen.unhold('orders', 'mine')": PUBLIC["unhold"],
        "select queen.drop_archive('mine')": PUBLIC["drop_archive"],
        "select * from queen.messages": VIEW_ROLES,
    }
    try:
        for name, role in ((name, role) for name, each in PUBLIC.items() for role in each):
            assert await connection.fetchval(
                "select bool_and(has_function_privilege($1, oid, 'execute')) from pg_proc "
                "where pronamespace = 'queen'::regnamespace and proname = $2",
                *(role, name),
            ), (name, role)
    finally:
        await connection.close()
    allowed: dict[str, set[str]] = {each: set() for each in documented}
    for role in ("queen_app", "queen_retention", "queen_readonly", "queen_producer",
                 "queen_pipeline"):  # fmt: skip
        dsn = await login(postgres, roles, role)
        for statement in documented:
            if not await refused(dsn, statement):
                allowed[statement].add(role)
    assert allowed == {statement: set(each) for statement, each in documented.items()}


async def test_an_application_enqueues_only_to_queues_that_its_owners_function_allows(
    postgres: Database, roles: str
) -> None:
    """The setup of docs/guides/messages/enqueue-in-sql.md."""
    shop = await login(postgres, roles, "pg_monitor")  # A role without any grants.
    name = shop.split("//")[1].split("@")[0]
    connection = await asyncpg.connect(roles)
    await connection.execute(
        f"""
        create schema shop;
        create function shop.enqueue_order (payload json) returns bigint
          language sql security definer set search_path = pg_catalog, pg_temp
          as $$ select queen.enqueue('orders', payload) $$;
        revoke all on function shop.enqueue_order from public;
        grant usage on schema shop to {name};
        grant execute on function shop.enqueue_order to {name};
        """
    )
    try:
        assert not await refused(shop, "select shop.enqueue_order('1')")
        assert await refused(shop, "select queen.enqueue('payroll', '1')")
        assert await refused(shop, "insert into queen.outbox (payload, item) values ('1', '{}')")
        items = await connection.fetch("select item ->> 'queue' as queue from queen.outbox")
        assert [row["queue"] for row in items] == ["orders"]
    finally:
        await connection.close()


async def test_the_retention_role_can_delete(postgres: Database, roles: str) -> None:
    dsn = await login(postgres, roles, "queen_retention")
    for statement in ("select queen.erase(10)", "delete from queen.segments",
                      "truncate queen.dedup_0"):  # fmt: skip
        assert not await refused(dsn, statement)


async def test_roles_can_be_recreated_by_any_user_with_createrole(
    postgres: Database, roles: str
) -> None:
    await make_roles(roles)
    dsn = await login(postgres, roles, "queen_app")
    with pytest.raises(errors.DatabaseUnsafe, match="CREATEROLE"):
        await make_roles(dsn)


async def test_an_owner_migrates_and_owns_the_new_objects(postgres: Database, roles: str) -> None:
    connection = await asyncpg.connect(roles)
    await connection.execute("delete from queen.migrations where name = 'functions'")
    await connection.execute("drop function queen.audit(text, text, text, text)")
    await connection.close()

    assert await migrate(await login(postgres, roles, "queen_owner")) == ["functions"]

    connection = await asyncpg.connect(roles)
    owners = await connection.fetch(
        """
        select distinct pg_get_userbyid(o.owner) as name
        from (
          select relowner from pg_class where relnamespace = 'queen'::regnamespace
          union all
          select proowner from pg_proc where pronamespace = 'queen'::regnamespace
          union all
          select typowner from pg_type where typnamespace = 'queen'::regnamespace
        ) o (owner)
        """
    )
    may = await connection.fetchval(
        "select has_function_privilege('queen_app', 'queen.audit(text,text,text,text)', 'execute')"
    )
    await connection.close()
    assert [row["name"] for row in owners] == ["queen_owner"]
    assert may


async def test_a_server_runs_as_the_app_role(postgres: Database, roles: str) -> None:
    key = await make_key(roles)
    dsn = await login(postgres, roles, "queen_app")
    async with Server(dsn, {**KEYS, "QUEEN_AUTO_MIGRATE": "false"}) as server:
        admin = Caller(server, key)
        options = {"rateLimit": {"max": 100, "durationMillis": 1000, "per": "queue"}}
        assert (await admin.post("/configure", {"queue": "q", "options": options})).status == 200
        item = {"queue": "q", "payload": 1, "transactionId": "t"}
        later = {"queue": "q", "payload": 2, "delaySeconds": 60}
        sent = {"items": [item, item, later], "producerId": "p", "sequence": 1}
        assert (await admin.post("/push", sent)).status == 201
        (message,) = (await admin.get("/pop/queue/q", consumerGroup="g")).body["messages"]
        named = {"id": message["id"], "leaseId": message["leaseId"], "consumerGroup": "g"}
        assert (await admin.post(f"/lease/{message['leaseId']}/extend")).status == 200
        assert (await admin.post("/ack", {**named, "status": "dlq"})).status == 200
        push = {"type": "push", "items": [{"queue": "q", "payload": 3}]}
        assert (await admin.post("/transaction", {"operations": [push]})).status == 200
        assert (await admin.post("/tokens", {"name": "k", "role": "admin"})).status == 201
        assert (await admin.post("/auth/ticket")).status == 201
        assert (await admin.get("/audit")).status == 200
        limited = Caller(server, await make_key(roles, requests_per_second=5))
        assert (await limited.get("/auth/me")).status == 200


async def test_a_server_with_the_app_role_reports_missing_migrations(
    postgres: Database, roles: str
) -> None:
    connection = await asyncpg.connect(roles)
    await connection.execute("delete from queen.migrations where name = 'functions'")
    await connection.close()
    dsn = await login(postgres, roles, "queen_app")
    with pytest.raises(RuntimeError, match="queen migrate up"):
        async with Server(dsn, {"QUEEN_AUTO_MIGRATE": "false"}):
            pass


async def test_a_deadlock_with_a_running_server_is_retried(dsn: str) -> None:
    server, observer = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    waiting = "select pid from pg_locks where not granted"
    held = (
        "select c.oid::regclass::text from pg_locks l join pg_class c on c.oid = l.relation"
        " where l.pid = $1 and l.granted and l.mode = 'AccessExclusiveLock' and c.relkind = 'r'"
    )
    try:
        transaction = server.transaction()
        await transaction.start()
        # So that PostgreSQL ends the other transaction.
        await server.execute("set local deadlock_timeout = '60s'; lock table queen.queues")
        making = asyncio.create_task(make_roles(dsn))

        async def is_blocked() -> bool:
            return await observer.fetchval(waiting) is not None

        await until(is_blocked)
        table = await observer.fetchval(held, await observer.fetchval(waiting))
        await server.execute(f"lock table {table}")
        await transaction.rollback()

        await making
    finally:
        await server.close()
        await observer.close()
