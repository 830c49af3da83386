"""A DSN with several hosts becomes one DSN per host."""

import pytest

from queen.settings import Settings
from queen.store.connection.primary import split


@pytest.mark.parametrize(
    ("dsn", "hosts"),
    [
        ("postgresql://u@a/db", ["postgresql://u@a/db"]),
        (
            "postgresql://u:p%40@a:1,b,[::1]:3/db?sslmode=require",
            [
                "postgresql://u:p%40@a:1/db?sslmode=require",
                "postgresql://u:p%40@b/db?sslmode=require",
                "postgresql://u:p%40@[::1]:3/db?sslmode=require",
            ],
        ),
        (
            "postgresql://u@/db?host=a,/run/b&port=1,2",
            ["postgresql://u@/db?host=a&port=1", "postgresql://u@/db?host=%2Frun%2Fb&port=2"],
        ),
        (
            "postgresql://u@/db?host=a,b&port=7",
            ["postgresql://u@/db?host=a&port=7", "postgresql://u@/db?host=b&port=7"],
        ),
        ("postgresql://u@/db?host=/run/a", ["postgresql://u@/db?host=/run/a"]),
    ],
)
def test_each_host_has_its_own_dsn(dsn: str, hosts: list[str]) -> None:
    assert split(dsn) == hosts


def test_the_variables_may_name_several_hosts_with_one_port() -> None:
    settings = Settings(pg_host="db1, db2", pg_port=5433, pg_user="u", pg_db="d")
    assert settings.dsn == "postgresql://u@db1:5433,db2:5433/d"
    assert Settings(pg_host="/run/pg").dsn == "postgresql://postgres@%2Frun%2Fpg:5432/postgres"
