"""The settings of preferred databases."""

import pytest

from queen import errors
from queen.settings import Settings

DATABASES = "main=postgresql://one/queen two=postgresql://two/queen"


@pytest.mark.parametrize(
    ("names", "url", "expected"),
    [
        ("two", None, "QUEEN_ADVERTISED_URL"),
        ("three", "http://one:6632", "names three"),
    ],
)
def test_preferred_databases_that_clients_can_not_use_are_rejected(
    names: str, url: str | None, expected: str
) -> None:
    settings = Settings(databases=DATABASES, preferred_databases=names, advertised_url=url)

    with pytest.raises(errors.BadSettings, match=expected):
        _ = settings.preferred


def test_a_server_prefers_the_named_databases() -> None:
    settings = Settings(
        databases=DATABASES, preferred_databases="two", advertised_url="http://one:6632"
    )

    assert settings.preferred == ["two"]
    assert Settings(databases=DATABASES).preferred is None
