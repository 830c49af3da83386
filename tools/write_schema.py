"""Dump Queen's schema to `tests/sql/schema.sql`."""

import asyncio
import re
import subprocess
from pathlib import Path

from queen.store.migrations import migrate
from tests.support.postgres import Postgres, bindir

SCHEMA = Path(__file__).parents[1] / "tests" / "sql" / "schema.sql"
VOLATILE = ("-- Dumped ", "\\restrict ", "\\unrestrict ")  # These differ between runs.


def dump(dsn: str) -> str:
    """Dump the schema `queen` of a database, without machine-specific lines."""
    command = [bindir() / "pg_dump", "--schema-only", "--schema=queen", "--no-owner", dsn]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # Only the first lines of bodies, because `sql/functions` contains them in full.
    text = re.sub(r"\$\$.*?\$\$;", "$$ … $$;", text, flags=re.DOTALL)
    lines = (line for line in text.splitlines() if not line.startswith(VOLATILE))
    return "\n".join(lines).strip() + "\n"


def main() -> None:
    with Postgres() as postgres:
        dsn = postgres.create_database("queen")
        asyncio.run(migrate(dsn))
        SCHEMA.write_text(dump(dsn), encoding="utf-8")


if __name__ == "__main__":
    main()
