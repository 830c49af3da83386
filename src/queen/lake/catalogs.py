"""Catalogs of Iceberg tables that a company already has: any that pyiceberg supports."""

# pyright: basic
import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from queen import errors
from queen.lake.storage import without_credentials
from queen.redacted import redacted

NAMESPACE: Final = "queen"
_SECRETS: Final = ("token", "credential", "secret", "password", "access-key", "key-id")


class CatalogOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    A catalog that the company already has. Default: the catalog in Queen's database.

    Secrets are given by environment variables or files, not by value, so that they are never in a
    configuration, a checkpoint or a log.
    """

    uri: str
    """URL of the catalog, such as https://catalog.example.com/iceberg."""
    type: str = "rest"
    """Kind of catalog, as pyiceberg names it: rest, glue, hive or sql."""
    name: str = NAMESPACE
    """Name of the catalog, by which a catalog of type sql finds its tables."""
    warehouse: str = ""
    """Warehouse or prefix, if the catalog has several."""
    namespace: str = NAMESPACE
    """Namespace of the tables."""
    token_env: str = ""
    """Environment variable with a bearer token."""
    token_file: str = ""
    """File with a bearer token."""
    credential_env: str = ""
    """Environment variable with `id:secret` for OAuth."""
    properties: dict[str, str] = {}
    """Further properties of pyiceberg without secrets, such as `scope` or `oauth2-server-uri`."""

    def __repr__(self) -> str:
        return redacted(self, ("properties",))

    def __post_init__(self) -> None:
        for name in self.properties:
            if any(word in name.lower() for word in _SECRETS):
                raise ValueError(
                    f"properties: {name} is a secret: set token_env, token_file or credential_env"
                )

    def load(self, storage: Mapping[str, str]) -> Any:  # noqa: ANN401 - a Catalog
        """Connect to the catalog. Raises InvalidOption."""
        from pyiceberg.catalog import load_catalog

        found = {**storage, **self.properties, "type": self.type, "uri": self.uri}
        if self.warehouse:
            found["warehouse"] = self.warehouse
        if self.token_env:
            found["token"] = _variable(self.token_env)
        if self.token_file:
            found["token"] = _content(self.token_file)
        if self.credential_env:
            found["credential"] = _variable(self.credential_env)
        try:
            return load_catalog(self.name, **found)
        except Exception as error:
            text = str(error).strip().splitlines() or [type(error).__name__]
            raise errors.InvalidOption(
                without_credentials(f"the catalog {self.uri} can't be opened: {text[0]}")
            ) from error


def _variable(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise errors.InvalidOption(f"the environment variable {name} is not set") from None


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise errors.InvalidOption(f"the file {path} can't be read: {error.strerror}") from error
