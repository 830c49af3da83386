"""A primary and its synchronous standby on loopback: if one dies, the other takes over."""

import contextlib
import shutil
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tests.support.ports import free_port
from tests.support.postgres import Postgres

SETTINGS: Mapping[str, str | int] = {
    "synchronous_standby_names": "*",
    # So that pg_rewind finds the changes, and the standby the WAL that it missed.
    "wal_log_hints": "on",
    "wal_keep_size": "1GB",
    "wal_retrieve_retry_interval": "100ms",
    "shared_buffers": "128MB",
}


class Pair:
    """
    Two servers. When the primary confirms a commit, the standby has it on disk.

    Usage::

        with Pair() as pair:
            pair.primary.create_database("queen")
            dsn = pair.dsn("queen")  # Names both.
            pair.primary.kill()
            pair.promote()
            pair.rebuild()
    """

    def __init__(self) -> None:
        ports = sorted((free_port(), free_port()))
        self.primary, self.standby = (Postgres(SETTINGS, port=port) for port in ports)
        for server in (self.primary, self.standby):
            # On the command line, because a base backup overwrites the configuration files.
            server.arguments = _words({"port": server.settings["port"]}, server)

    def __enter__(self) -> Self:
        try:
            self.primary.start()
            self._copy()
            self.follow()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def dsn(self, database: str) -> str:
        """A DSN with both hosts, always in the same order."""
        ports = sorted(str(each.settings["port"]) for each in (self.primary, self.standby))
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write"

    def promote(self) -> None:
        """Promote the standby. It confirms no commits until it has a standby again."""
        # `pg_promote` itself writes no WAL, so it does not wait for a standby.
        self.standby.execute("select pg_promote(true, 60)")
        self.primary, self.standby = self.standby, self.primary

    def rebuild(self) -> None:
        """Make the old primary, which is not running, the standby of the new one."""
        source = self.primary.dsn("postgres")
        # Before this, its control file names the old timeline, and pg_rewind finds no work.
        self.primary.execute("checkpoint")
        options = ("--target-pgdata", str(self.standby.data), "--source-server", source)
        try:
            self.standby.run("pg_rewind", *options, "--no-sync")
        except RuntimeError:
            shutil.rmtree(self.standby.data)
            self._copy()
        self.follow()

    def follow(self) -> None:
        """Start the standby, and wait until the primary replicates to it."""
        (self.standby.data / "standby.signal").touch()
        with contextlib.suppress(FileNotFoundError):
            (self.primary.data / "standby.signal").unlink()
        name = self.standby.settings["port"]
        upstream = f"host=127.0.0.1 port={self.primary.settings['port']} user=postgres"
        self.standby.arguments = _words(
            {"port": name, "primary_conninfo": f"{upstream} application_name=s{name}"},
            self.standby,
        )
        self.standby.start()
        deadline = time.monotonic() + 30
        while not self.is_in_step:
            if time.monotonic() > deadline:
                raise TimeoutError("the standby does not follow")
            time.sleep(0.05)

    @property
    def is_in_step(self) -> bool:
        """Whether the standby is synchronous."""
        query = "select exists (select from pg_stat_replication where sync_state = 'sync')"
        return self.primary.value(query) is True

    def remove(self) -> None:
        self.standby.remove()
        self.primary.remove()

    def _copy(self) -> None:
        source = self.primary.dsn("postgres")
        options = ("--checkpoint", "fast", "--wal-method", "stream", "--no-sync")
        self.standby.run("pg_basebackup", "-D", str(self.standby.data), "-d", source, *options)


def _words(settings: Mapping[str, str | int], server: Postgres) -> list[str]:
    named = {**settings, "unix_socket_directories": str(server.directory)}
    return [word for name, value in named.items() for word in ("-c", f"{name}={value}")]
