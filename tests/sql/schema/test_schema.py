"""The tables and functions of a fresh install, and rules for all of them."""

import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg
import pytest

from queen import errors, sql
from tools.write_schema import SCHEMA, dump

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

FUNCTIONS = """
select
  p.oid, p.oid::regprocedure::text as name, p.proname, p.prosrc, p.prosecdef, p.proconfig,
  l.lanname, coalesce(t.tgrelid, 0) as table, t.tgoldtable as old_table
from pg_proc p
join pg_language l on l.oid = p.prolang
left join lateral (
  select t.tgrelid, t.tgoldtable from pg_trigger t where t.tgfoid = p.oid limit 1
) t on true
where p.pronamespace = 'queen'::regnamespace
order by name
"""
DUMPED_BY = 15
"""The major release on which `make schema` ran. Others word their dump differently."""


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator["Connection"]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def test_a_fresh_install_equals_the_reviewed_schema(
    dsn: str, connection: "Connection"
) -> None:
    if (major := connection.get_server_version().major) != DUMPED_BY:
        pytest.skip(f"schema.sql is a dump of PostgreSQL {DUMPED_BY}, this is {major}")

    assert dump(dsn) == SCHEMA.read_text("utf-8"), "run `make schema` and review what changed"


async def test_all_functions_apply_again_with_their_bodies_checked(
    dsn: str, connection: "Connection"
) -> None:
    before = dump(dsn)

    await connection.execute("set check_function_bodies = on")
    for text in sql.FUNCTIONS.values():
        await connection.execute(text)

    assert dump(dsn) == before


async def test_every_call_prepares(connection: "Connection") -> None:
    refused: dict[str, str] = {}
    for name, text in sql.CALLS.items():
        try:
            await connection.prepare(text)
        except asyncpg.PostgresError as error:
            refused[name] = str(error)

    assert refused == {}


def test_every_call_has_a_purpose() -> None:
    silent = [name for name, text in sql.CALLS.items() if not text.startswith("-- ")]

    assert silent == []


async def test_public_has_no_privileges(connection: "Connection") -> None:
    granted = await connection.fetch(
        """
        select o.name, a.privilege_type
        from (
          select p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner))
          from pg_proc p
          where p.pronamespace = 'queen'::regnamespace
          union all
          select
            c.oid::regclass::text,
            -- Without grants, only the owner has access to a relation.
            c.relacl
          from pg_class c
          where c.relnamespace = 'queen'::regnamespace
          union all
          select n.nspname, coalesce(n.nspacl, acldefault('n', n.nspowner))
          from pg_namespace n
          where n.nspname = 'queen'
        ) o (name, acl)
        cross join lateral aclexplode(o.acl) a
        where a.grantee = 0  -- PUBLIC
        """
    )

    assert [tuple(row) for row in granted] == []


async def test_few_functions_run_with_the_rights_of_their_owner(connection: "Connection") -> None:
    functions = await connection.fetch(FUNCTIONS)

    found = {row["proname"] for row in functions if row["prosecdef"]}
    # The latter change which database owns a slot.
    assert found == {"forget_audit", "recall"} | {
        "close_slot",
        "close_given_slots",
        "copy_slot",
        "forget_copy",
        "keep_slot",
        "leave_slot",
        "leave_slots",
        "note_rewrites",
        "own_slot",
        "own_slots",
        "pass_ids",
        "record_owner",
        "remove_database",
    }


def _name(function: "asyncpg.Record") -> str:
    """The name without schema and arguments."""
    return function["name"].partition("(")[0].removeprefix("queen.")


async def test_functions_called_from_outside_set_their_search_path(
    connection: "Connection",
) -> None:
    """Inner functions inherit it. Setting it in each makes a pop 25 % slower."""
    relations = await connection.fetch(
        "select relname from pg_class where relnamespace = 'queen'::regnamespace and relkind <> 'i'"
    )
    touches = re.compile(rf"\bqueen\.({'|'.join(row['relname'] for row in relations)})\b")
    functions = await connection.fetch(FUNCTIONS)
    sent = set(re.findall(r"\bqueen\.(\w+) ?\(", "".join(sql.CALLS.values())))
    bodies = "".join(row["prosrc"] for row in functions)
    inner = set(re.findall(r"\bqueen\.(\w+) ?\(", bodies)) - sent

    loose = [
        row["name"]
        for row in functions
        if (row["lanname"] == "plpgsql" or touches.search(row["prosrc"]))
        and _name(row) not in inner
        and "search_path=pg_catalog, pg_temp" not in (row["proconfig"] or [])
    ]
    assert loose == []


async def test_functions_that_a_call_reaches_plan_under_its_settings(
    connection: "Connection",
) -> None:
    """
    A plan is kept for the session, so a plan without these settings would stay for later calls.
    """
    functions = {_name(row): row for row in await connection.fetch(FUNCTIONS)}
    sent = set(re.findall(r"\bqueen\.(\w+) ?\(", "".join(sql.CALLS.values())))
    reached: dict[str, set[str]] = {}
    for entry in sent & functions.keys():
        todo = [entry]
        while todo:
            for name in re.findall(r"\bqueen\.(\w+) ?\(", functions[todo.pop()]["prosrc"]):
                if name in functions and entry not in reached.setdefault(name, set()):
                    reached[name].add(entry)
                    todo.append(name)
    planned = {
        name for name, row in functions.items() if "enable_hashjoin=off" in (row["proconfig"] or [])
    }
    hot = {name for name, entries in reached.items() if entries & {"push", "pop", "ack", "nack"}}

    assert {"claim_new", "free"} <= hot
    loose = {
        (name, entry)
        for name in hot
        for entry in reached[name] - planned
        if functions[name]["lanname"] == "plpgsql" and name not in planned
    }
    assert loose == set()


async def test_no_function_builds_its_statements_as_text(connection: "Connection") -> None:
    functions = await connection.fetch(FUNCTIONS)

    assert [row["name"] for row in functions if re.search(r"\bexecute\b", row["prosrc"])] == []


async def test_no_function_has_an_overload(connection: "Connection") -> None:
    count = Counter(row["proname"] for row in await connection.fetch(FUNCTIONS))

    assert [name for name, times in count.items() if times > 1] == []


async def test_no_verb_has_more_than_two_versions(connection: "Connection") -> None:
    functions = await connection.fetch(FUNCTIONS)
    versions = Counter(re.sub(r"_v\d+$", "", row["proname"]) for row in functions)

    assert [name for name, times in versions.items() if times > 2] == []


async def test_every_rejection_in_sql_is_a_queen_error(connection: "Connection") -> None:
    functions = await connection.fetch(FUNCTIONS)
    codes = {code for row in functions for code in re.findall(r"'(QN\d{3})'", row["prosrc"])}

    assert codes
    assert [code for code in sorted(codes) if errors.of_sqlstate(code) is None] == []


async def test_the_bodies_of_all_functions_pass_the_checker(connection: "Connection") -> None:
    if not await connection.fetchval(
        "select exists (select 1 from pg_available_extensions where name = 'plpgsql_check')"
    ):
        pytest.skip("plpgsql_check is not installed; `make packages` installs it on Debian")
    await connection.execute("create extension plpgsql_check schema public")

    complaints: list[str] = []
    for function in await connection.fetch(FUNCTIONS):
        if function["lanname"] == "plpgsql":
            found = await connection.fetch(
                """
                select level, lineno, statement, sqlstate, message, detail
                from public.plpgsql_check_function_tb(
                  funcoid => $1::oid, relid => $2::oid, oldtable => $3, fatal_errors => false
                )
                -- Only errors and unused declarations. Other findings are matters of style.
                where level in ('error', 'warning extra')
                """,
                function["oid"],
                function["table"],
                function["old_table"],
            )
            complaints += [f"{function['name']}: {tuple(row)}" for row in found]

    assert not complaints, "\n".join(complaints)
