"""A directory of a file system or an object store, by path or URI."""

# pyright: basic
import configparser
import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyarrow import fs

from queen import errors

_CREDENTIALS: Final = re.compile(r"(?<=://)[^/@\s]*@")
_RETRIES: Final = 10
"""Attempts per request. Object stores respond 503 when they are busy."""
_CONNECT_SECONDS: Final = 10
_REQUEST_SECONDS: Final = 120
_KEYS: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_S3: Final = ("s3", "s3a", "s3n")


def retry_strategy() -> fs.S3RetryStrategy:
    """Return the retries of an object store. pyiceberg calls this function by its name."""
    return fs.AwsStandardS3RetryStrategy(max_attempts=_RETRIES)


class StorageOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    How to reach an object store, without secrets.

    Each process finds its access keys itself: in the file ``credentials``, in the environment
    (``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``), or by the role of its machine. So they
    are never in a checkpoint, a plan, a log or the catalog.
    """

    endpoint: str = ""
    """URL of an S3-compatible server. Default: Amazon S3."""
    region: str = ""
    """Region of the bucket. Default: `AWS_REGION`."""
    credentials: str = ""
    """File with access keys, in the format of the AWS CLI. Default: environment, then role."""
    profile: str = "default"
    """Section of the file with access keys."""

    def __str__(self) -> str:
        names = (name for name in self.__struct_fields__ if name != "profile")
        return ", ".join(f"{name}={value}" for name in names if (value := getattr(self, name)))

    def keys(self) -> dict[str, str]:
        """Read the access keys of the file. Empty without a file. Raises InvalidOption."""
        if not self.credentials:
            return {}
        parser = configparser.RawConfigParser()
        try:
            with open(self.credentials, encoding="utf-8") as file:
                parser.read_file(file)
            section = dict(parser[self.profile])
        except (OSError, KeyError, configparser.Error) as error:
            # The text of a parser's error can contain a key.
            raise errors.InvalidOption(
                f"the file {self.credentials} has no readable section [{self.profile}]"
                f" ({type(error).__name__})"
            ) from None
        return {name: section[name] for name in _KEYS if name in section}

    def for_arrow(self, path: str) -> tuple[fs.FileSystem, str]:
        """Return Arrow's file system for a path, and the path in it."""
        scheme, _, rest = path.partition("://")
        if scheme not in _S3:
            return fs.FileSystem.from_uri(path)
        names = ("access_key", "secret_key", "session_token")
        keys = self.keys()
        options: dict[str, Any] = {
            name: keys[key] for name, key in zip(names, _KEYS, strict=True) if key in keys
        }
        if self.endpoint:
            url = urlsplit(self.endpoint)
            options |= {"endpoint_override": url.netloc, "scheme": url.scheme}
        if region := self._region():
            options["region"] = region
        system = fs.S3FileSystem(
            connect_timeout=_CONNECT_SECONDS,
            request_timeout=_REQUEST_SECONDS,
            retry_strategy=retry_strategy(),
            **options,
        )
        return system, rest

    def for_iceberg(self) -> dict[str, str]:
        """Return pyiceberg's properties."""
        names = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")
        keys = self.keys()
        found = {name: keys[key] for name, key in zip(names, _KEYS, strict=True) if key in keys}
        if self.endpoint:
            found["s3.endpoint"] = self.endpoint
        if region := self._region():
            found["s3.region"] = region
        return found | {
            "s3.connect-timeout": str(_CONNECT_SECONDS),
            "s3.request-timeout": str(_REQUEST_SECONDS),
            "s3.retry-strategy-impl": f"{retry_strategy.__module__}.{retry_strategy.__name__}",
        }

    def for_delta(self) -> dict[str, str]:
        """Return deltalake's storage options."""
        keys = self.keys()
        found = {key.upper(): keys[key] for key in _KEYS if key in keys}
        if self.endpoint:
            found["AWS_ENDPOINT_URL"] = self.endpoint
            found["AWS_ALLOW_HTTP"] = str(self.endpoint.startswith("http:")).lower()
        if region := self._region():
            found["AWS_REGION"] = region
        # Of two writers of one version, one fails.
        return found | {"conditional_put": "etag"}

    def _region(self) -> str:
        given = self.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        # Servers of other vendors ignore it, but a request is signed with some region.
        return given or ("us-east-1" if self.endpoint else "")


NO_OPTIONS: Final = StorageOptions()


class Entry(NamedTuple):
    """An existing file."""

    path: str
    modified_at: float
    """Seconds since 1970."""
    bytes: int


class Storage:
    """A directory. Paths in it begin with ``location``, which has no trailing slash."""

    def __init__(self, location: str, options: StorageOptions = NO_OPTIONS) -> None:
        self.location = normal(location)
        self.options = options

    @property
    def is_local(self) -> bool:
        return self.location.startswith("/")

    def check(self) -> None:
        """Write and delete a file, to find a wrong location early. Raises LakeUnavailable."""
        path = f"{self.location}/_queen-{uuid4().hex}"
        with reaching(self.location):
            with self.create(path) as stream:
                stream.write(b"queen")
            self.delete([path])

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield every file in a directory and its subdirectories."""
        system, path = self.options.for_arrow(folder)
        selector = fs.FileSelector(path, allow_not_found=True, recursive=True)
        for info in system.get_file_info(selector):
            if info.type == fs.FileType.File:
                seconds = info.mtime.timestamp() if info.mtime else 0.0
                yield Entry(folder + info.path.removeprefix(path), seconds, info.size)

    def delete(self, paths: Iterable[str]) -> int:
        """Delete files, ignoring missing ones. Returns their number."""
        count = 0
        system, _ = self.options.for_arrow(self.location)
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                system.delete_file(_inner(path))
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

    def create(self, path: str) -> Any:  # noqa: ANN401 - a file of Python's or a stream of Arrow's
        """Open a new file for writing, and create its directories."""
        if path.startswith("/"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return open(path, "xb")
        system, inner = self.options.for_arrow(path)
        return system.open_output_stream(inner)

    def read(self, path: str) -> Any:  # noqa: ANN401 - likewise
        """Open a file for random access."""
        system, inner = self.options.for_arrow(path)
        return system.open_input_file(inner)


@contextlib.contextmanager
def reaching(location: str) -> Iterator[None]:
    """Turn errors of a file system or an object store into LakeUnavailable, in one sentence."""
    try:
        yield
    # Arrow rejects a URI that it can't parse, or whose file system it doesn't have.
    except (OSError, pa.ArrowInvalid, NotImplementedError) as error:
        text = f"{location} is unavailable: {_reason(error)}"
        raise errors.LakeUnavailable(without_credentials(text)) from error


def without_credentials(text: str) -> str:
    """Hide the user and the password of URIs."""
    return _CREDENTIALS.sub("***@", text)


def normal(location: str) -> str:
    """Normalize a location: an absolute path if it is local, else a URI. Raises InvalidOption."""
    parts = urlsplit(location)
    if parts.scheme in _S3 and not parts.hostname:
        raise errors.InvalidOption(
            f"location: {parts.scheme}:// needs a bucket, as in {parts.scheme}://bucket/orders"
        )
    if "://" not in location or location.startswith("file:"):
        location = str(Path(local(location)).absolute())
    return location.rstrip("/")


def is_below(path: str, directory: str) -> bool:
    """Whether a file is in a directory or its subdirectories. Both can be local paths or URIs."""
    parts = local(path).split("/")
    return ".." not in parts and local(path).startswith(f"{local(directory).rstrip('/')}/")


def local(path: str) -> str:
    return unquote(urlsplit(path).path) if path.startswith("file:") else path


def _inner(path: str) -> str:
    """Return the path in its file system."""
    if "://" not in path or path.startswith("file:"):
        return local(path)
    return path.partition("://")[2]


def _reason(error: Exception) -> str:
    """Return the part of Arrow's text that a person needs: the last one."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return text.rpartition("AWS Error ")[2].partition(" (Request ID")[0].rstrip(".")
