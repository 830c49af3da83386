"""A lake uses the catalog that a company already has, without secrets in its configuration."""

# pyright: basic
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from queen import errors
from queen.lake import CatalogOptions, Lake, open_lake
from queen.pipelines.archive import Config
from tests.spark.lakes.test_commits import compact
from tests.spark.lakes.test_lakes import archive, offsets


@pytest.fixture
def options(tmp_path: Path) -> CatalogOptions:
    """Another catalog than Queen's: pyiceberg's own, in SQLite."""
    return CatalogOptions(
        type="sql", name="other", uri=f"sqlite:///{tmp_path}/catalog.db", namespace="analytics"
    )


@pytest.fixture
def lake(dsn: str, tmp_path: Path, options: CatalogOptions) -> Iterator[Lake]:
    with open_lake(
        dsn,
        name="orders",
        format="iceberg",
        location=str(tmp_path / "lake"),
        make=True,
        catalog=options,
    ) as lake:
        yield lake


def test_a_lake_lives_in_another_catalog(
    dsn: str, lake: Lake, options: CatalogOptions, tmp_path: Path
) -> None:
    batches = [archive(lake, number) for number in (1, 2)]
    assert compact(lake)

    with SqlCatalog("other", uri=options.uri) as catalog:
        table = catalog.load_table(("analytics", "orders"))
        assert table.scan().to_arrow().num_rows == 200
    assert lake.last() == batches[-1]
    assert sorted(offsets(lake.files())) == list(range(200))
    with psycopg.connect(dsn) as connection:
        found = connection.execute("select 1 from queen.iceberg_tables").fetchall()
    assert found == []


def test_an_unreachable_catalog_is_one_sentence(dsn: str, tmp_path: Path) -> None:
    options = CatalogOptions(uri="http://127.0.0.1:1")

    with pytest.raises(
        errors.InvalidOption, match=r"http://127\.0\.0\.1:1 can't be opened"
    ) as failure:
        open_lake(dsn, name="orders", format="iceberg", location=str(tmp_path), catalog=options)
    assert "\n" not in str(failure.value)


def test_a_missing_token_is_named(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CATALOG_TOKEN", raising=False)
    for options, name in (
        (CatalogOptions(uri="http://127.0.0.1:1", token_env="CATALOG_TOKEN"), "CATALOG_TOKEN"),
        (CatalogOptions(uri="http://127.0.0.1:1", token_file=str(tmp_path / "no")), "no"),
    ):
        with pytest.raises(errors.InvalidOption, match=name):
            open_lake(dsn, name="orders", format="iceberg", location=str(tmp_path), catalog=options)


@pytest.mark.parametrize("name", ["token", "credential", "s3.secret-access-key"])
def test_a_secret_in_the_configuration_is_rejected(name: str) -> None:
    given = {"uri": "http://catalog", "properties": {name: "hush"}}

    with pytest.raises(msgspec.ValidationError, match="token_env"):
        msgspec.convert(given, CatalogOptions)


def test_a_configuration_shows_no_password_of_a_catalog() -> None:
    config = Config(
        dsn="postgresql://localhost/queen",
        queue="orders",
        location="/lake",
        catalog=CatalogOptions(uri="https://me:hush@catalog.example.com"),
    )

    assert "hush" not in repr(config)
