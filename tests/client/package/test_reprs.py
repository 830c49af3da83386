"""Reprs, which end up in logs and tracebacks, contain no secrets."""

import importlib
import inspect
import pkgutil
import re
from datetime import UTC, datetime
from typing import Any

import pytest

import queen
from queen import Queen, SyncQueen, errors
from queen.cli.support.contexts import Where
from queen.client.config import Config
from queen.redacted import without_passwords
from queen.server.auth.api_keys import new_key
from queen.settings import Settings
from queen.wire.access import NewToken

SECRET = "s3cr3t"
URL = f"https://me:{SECRET}@queen.example"
DSN = f"postgresql://me:{SECRET}@db/queen"
OPTIONS: dict[str, Any] = {
    "url": URL,
    "bearer_token": SECRET,
    "headers": {"Authorization": f"Bearer {SECRET}"},
}
SECRETS = re.compile(r"(^|_)(bearer_token|password|secret|dsn|database_url)$")


def token() -> NewToken:
    return NewToken(
        id="a",
        name="b",
        role=None,
        permissions=[],
        scopes=None,
        expires_at=None,
        requests_per_second=None,
        created_at=datetime.now(UTC),
        created_by="c",
        revoked_at=None,
        token=SECRET,
    )


def shown() -> dict[str, Any]:
    client = Queen(OPTIONS)
    return {
        "configuration": Config.of(OPTIONS),
        "client": client,
        "transport": client.transport,
        "queue": client.queue("orders").buffer(),
        "transaction": client.transaction(),
        "admin": client.admin,
        "sync client": SyncQueen(OPTIONS),
        "context": Where([URL], SECRET, "default"),
        "settings": Settings(pg_password=SECRET, jwt_secret=SECRET, database_url=DSN),
        "new token": token(),
    }


@pytest.mark.parametrize("what", shown())
def test_a_repr_contains_no_secret(what: str) -> None:
    value = shown()[what]
    assert SECRET not in repr(value)
    assert SECRET not in str(value)


def test_a_new_api_key_is_not_shown() -> None:
    key = new_key()
    assert key.text not in repr(key)
    assert key.id in repr(key)


@pytest.mark.parametrize(
    "text", [DSN, URL, f"host=db password={SECRET} user=me", f"host=db password='{SECRET} x'"]
)
def test_passwords_are_removed_from_urls(text: str) -> None:
    assert SECRET not in without_passwords(text)
    assert "****" in without_passwords(text)


def modules() -> list[str]:
    return [each.name for each in pkgutil.walk_packages(queen.__path__, "queen.")]


def test_every_struct_with_a_secret_has_its_own_repr() -> None:
    plain: set[str] = set()
    for name in modules():
        for class_ in vars(importlib.import_module(name)).values():
            if not inspect.isclass(class_) or class_.__module__ != name:
                continue
            fields: Any = getattr(class_, "__struct_fields__", getattr(class_, "_fields", ()))
            own = "__repr__" in vars(class_) and vars(class_)["__repr__"].__module__ == name
            if not own and any(SECRETS.search(field) for field in fields):
                plain.add(f"{name}.{class_.__name__}")
    assert plain == set()


async def test_a_connection_error_shows_the_url_without_the_password() -> None:
    async with Queen(f"http://me:{SECRET}@127.0.0.1:9", retry_attempts=1) as client:
        with pytest.raises(errors.ServerUnreachable) as caught:
            await client.queue("orders").pop()
    assert "http://****@127.0.0.1:9" in str(caught.value)
    assert SECRET not in str(caught.value)
