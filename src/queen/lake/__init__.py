"""Lakes: tables of files that other tools can read, behind one small interface."""

from queen import errors
from queen.lake.lake import Batch, DataFile, Lake
from queen.lake.storage import reaching

__all__ = ["Batch", "DataFile", "Lake", "open_lake"]


def open_lake(dsn: str, *, name: str, format: str, location: str, make: bool = False) -> Lake:
    """Open the lake of an archive. ``make`` creates it. Raises NotFound and LakeUnavailable."""
    # Arrow rejects a URI that it can't parse, or whose file system it doesn't have.
    with reaching(location, ValueError, NotImplementedError):
        return _open(dsn, name, format, location, make=make)


def _open(dsn: str, name: str, format: str, location: str, *, make: bool) -> Lake:
    if format == "iceberg":
        from queen.lake.iceberg import IcebergLake

        return IcebergLake(dsn, name, location, make=make)
    if format == "parquet":
        from queen.lake.parquet import ParquetLake

        return ParquetLake(name, location, make=make)
    try:
        from queen.lake.delta import DeltaLake
    except ModuleNotFoundError as error:
        raise errors.InvalidOption("format delta needs the package deltalake") from error
    return DeltaLake(name, location, make=make)
