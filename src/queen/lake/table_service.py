"""
Load and commit tables of Queen's catalog for clients of Iceberg's REST protocol.

A commit checks the client's requirements against the current metadata, writes new metadata, and
swaps its location in one row of PostgreSQL. Of two concurrent commits, one finds another location
in the row and is rejected, so no snapshot is lost.
"""

# pyright: basic
import contextlib
import re
import threading
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from queen import errors
from queen.lake.catalogs import NAMESPACE
from queen.lake.database_catalog import DatabaseCatalog
from queen.lake.storage import NO_OPTIONS, is_below

_REJECTED: Final = frozenset({"assign-uuid", "set-location"})
_PROPERTIES: Final = re.compile(
    r"comment|owner|user\..+|history\..+|read\..+|schema\.name-mapping\.default"
    r"|write\.(parquet|delete|update|merge)\..+|write\.(format\.default|distribution-mode"
    r"|target-file-size-bytes)"
)
"""
Properties that a client may change. Others could name a Python class that the server imports, a
host that it sends its credentials to, or a directory outside the table.
"""


class TableService:
    """The tables of the catalog in one database. It connects at the first use."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._catalog: Any = None
        self._lock = threading.Lock()

    def load(self, name: str) -> bytes:
        """Return a table as Iceberg's LoadTableResult. Raises NotFound."""
        return _result(self._load(name))

    def commit(self, name: str, body: dict[str, Any]) -> bytes:
        """
        Apply updates if the requirements are met.

        Raises NotFound, Conflict, BadRequest, DatabaseUnavailable, and OutcomeUnknown if the
        connection was lost meanwhile.
        """
        import sqlalchemy.exc
        from pydantic import ValidationError
        from pyiceberg.exceptions import CommitFailedException, ValidationException
        from pyiceberg.table import CommitTableRequest

        identifier = {"namespace": [NAMESPACE], "name": name}
        try:
            request = CommitTableRequest.model_validate({**body, "identifier": identifier})
        except ValidationError as error:
            raise errors.BadRequest(
                f"the commit is not valid: {error.errors()[0]['msg']}"
            ) from error
        except (AttributeError, TypeError) as error:
            # Functions of pyiceberg convert some fields before their types are validated.
            raise errors.BadRequest("the commit has a field of a wrong type") from error
        _check(request.updates)
        catalog, table = self._connected(), self._load(name)
        _check_snapshots(request.updates, table.location())
        before = table.metadata
        try:
            answer = catalog.commit_table(table, request.requirements, request.updates)
        except (CommitFailedException, ValidationException) as error:
            raise errors.Conflict(str(error)) from error
        except ValueError as error:
            # Not its text, which can contain anything that pyiceberg knows.
            raise errors.BadRequest("the updates don't fit the table") from error
        except (sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError) as error:
            raise errors.OutcomeUnknown(
                f"the connection to PostgreSQL was lost during a commit to {NAMESPACE}.{name}"
            ) from error
        except OSError as error:
            raise errors.DatabaseUnavailable(
                f"the metadata of table {NAMESPACE}.{name} can't be written to its storage"
            ) from error
        with contextlib.suppress(Exception):  # The next compaction removes what stays.
            catalog._delete_old_metadata(table.io, before, answer.metadata)
        table.metadata, table.metadata_location = answer.metadata, answer.metadata_location
        return _result(table)

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()

    def _load(self, name: str) -> Any:  # noqa: ANN401 - a Table
        import sqlalchemy.exc
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._connected().load_table((NAMESPACE, name))
        except NoSuchTableError as error:
            raise errors.NotFound(f"table {NAMESPACE}.{name} does not exist") from error
        except (sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError) as error:
            raise errors.DatabaseUnavailable from error
        except OSError as error:
            raise errors.DatabaseUnavailable(
                f"the metadata of table {NAMESPACE}.{name} can't be read from its storage"
            ) from error

    def _connected(self) -> Any:  # noqa: ANN401 - a Catalog
        with self._lock:
            if self._catalog is None:
                self._catalog = DatabaseCatalog(self._dsn, NO_OPTIONS.for_iceberg())
            return self._catalog


def _check(updates: Sequence[Any]) -> None:
    """Raise BadRequest for updates that would move files, or break exactly-once commits."""
    for update in updates:
        if update.action in _REJECTED:
            raise errors.BadRequest(
                f"the update {update.action} is not supported for tables of archives"
            )
        names = {"set-properties": "updates", "remove-properties": "removals"}.get(update.action)
        for name in getattr(update, names) if names else ():
            if not _PROPERTIES.fullmatch(name):
                raise errors.BadRequest(f"the property {name} can't be changed")


def _check_snapshots(updates: Sequence[Any], location: str) -> None:
    """Raise BadRequest for a snapshot whose files are outside the table."""
    for update in updates:
        if update.action != "add-snapshot":
            continue
        if not is_below(update.snapshot.manifest_list, f"{location}/metadata"):
            raise errors.BadRequest(f"the manifest list must be in {location}/metadata")


def _result(table: Any) -> bytes:  # noqa: ANN401 - a Table
    location = msgspec.json.encode(table.metadata_location)
    metadata = table.metadata.model_dump_json().encode()
    return b'{"metadata-location":%b,"metadata":%b,"config":{}}' % (location, metadata)
