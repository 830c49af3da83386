"""Lakes: tables of files that other tools can read, behind one small interface."""

from queen import errors
from queen.lake.catalogs import CatalogOptions
from queen.lake.lake import MAX_SNAPSHOTS, Lake
from queen.lake.records import Batch, DataFile
from queen.lake.storage import NO_OPTIONS, StorageOptions, reaching

__all__ = ["Batch", "CatalogOptions", "DataFile", "Lake", "StorageOptions", "open_lake"]


def open_lake(
    dsn: str,
    *,
    name: str,
    format: str,
    location: str,
    make: bool = False,
    storage: StorageOptions = NO_OPTIONS,
    catalog: CatalogOptions | None = None,
    max_snapshots: int = MAX_SNAPSHOTS,
) -> Lake:
    """Open the lake of an archive. ``make`` creates it. Raises NotFound and LakeUnavailable."""
    with reaching(location):
        if format == "iceberg":
            from queen.lake.iceberg import IcebergLake

            return IcebergLake(
                dsn,
                name,
                location,
                make=make,
                options=storage,
                catalog=catalog,
                max_snapshots=max_snapshots,
            )
        if format == "parquet":
            from queen.lake.parquet import ParquetLake

            return ParquetLake(name, location, make=make)
        try:
            from queen.lake.delta import DeltaLake
        except ModuleNotFoundError as error:
            raise errors.InvalidOption("format delta needs the package deltalake") from error
        return DeltaLake(name, location, make=make, options=storage)
