"""A directory of a file system or an object store, by path or URI."""

# pyright: basic
import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from queen import errors

_CREDENTIALS: Final = re.compile(r"(?<=://)[^/@\s]*@")


class Entry(NamedTuple):
    """An existing file."""

    path: str
    modified_at: float
    """Seconds since 1970."""
    bytes: int


class Storage:
    """A directory. Paths in it begin with ``location``, which has no trailing slash."""

    def __init__(self, location: str) -> None:
        self.location = normal(location)

    @property
    def is_local(self) -> bool:
        return self.location.startswith("/")

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield every file in a directory and its subdirectories."""
        system, path = fs.FileSystem.from_uri(folder)
        selector = fs.FileSelector(path, allow_not_found=True, recursive=True)
        for info in system.get_file_info(selector):
            if info.type == fs.FileType.File:
                seconds = info.mtime.timestamp() if info.mtime else 0.0
                yield Entry(folder + info.path.removeprefix(path), seconds, info.size)

    def delete(self, paths: Iterable[str]) -> int:
        """Delete files, ignoring missing ones. Returns their number."""
        count = 0
        for path in paths:
            system, inner = fs.FileSystem.from_uri(path)
            with contextlib.suppress(FileNotFoundError):
                system.delete_file(inner)
                count += 1
        return count

    def make_durable(self, paths: Iterable[str]) -> None:
        """Wait until files and their names are on disk. Object stores do that themselves."""
        if not self.is_local:
            return
        files = {local(path) for path in paths}
        folders = {os.path.dirname(file) for file in files}
        for path in (*files, *folders, *{os.path.dirname(folder) for folder in folders}):
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)


def open_file(path: str) -> Any:  # noqa: ANN401 - a file of Python's or a stream of Arrow's
    """Open a new file for writing, and create its directories."""
    if path.startswith("/"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return open(path, "xb")
    system, inner = fs.FileSystem.from_uri(path)
    return system.open_output_stream(inner)


def read_file(path: str) -> Any:  # noqa: ANN401 - likewise
    """Open a file for random access."""
    system, inner = fs.FileSystem.from_uri(path)
    return system.open_input_file(inner)


@contextlib.contextmanager
def reaching(location: str, *others: type[Exception]) -> Iterator[None]:
    """Turn errors of a file system or an object store into LakeUnavailable, in one sentence."""
    try:
        yield
    except (OSError, *others) as error:
        lines = str(error).split("\n")
        text = _CREDENTIALS.sub("***@", f"{location} is unavailable: {lines[0]}")
        raise errors.LakeUnavailable(text) from error


def normal(location: str) -> str:
    """Normalize a location: an absolute path if it is local, else a URI."""
    if "://" not in location or location.startswith("file:"):
        location = str(Path(local(location)).absolute())
    return location.rstrip("/")


def local(path: str) -> str:
    return unquote(urlsplit(path).path) if path.startswith("file:") else path
