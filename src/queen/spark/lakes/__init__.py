"""Lakes: tables of files that other tools can read, behind one small interface."""

from queen import errors
from queen.spark.lakes.lake import Batch, DataFile, Lake

__all__ = ["Batch", "DataFile", "Lake", "open_lake"]


def open_lake(dsn: str, *, name: str, format: str, location: str, make: bool = False) -> Lake:
    """Open the lake of an archive. ``make`` creates it. Raises NotFound."""
    if format == "iceberg":
        from queen.spark.lakes.iceberg import IcebergLake

        return IcebergLake(dsn, name, location, make=make)
    if format == "parquet":
        from queen.spark.lakes.parquet import ParquetLake

        return ParquetLake(name, location, make=make)
    try:
        from queen.spark.lakes.delta import DeltaLake
    except ModuleNotFoundError as error:
        raise errors.InvalidOption("format delta needs the package deltalake") from error
    return DeltaLake(name, location, make=make)
