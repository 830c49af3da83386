"""Store or print the secrets of new API keys, each of which only one response contains."""

import json
import os
import stat
import sys
from types import TracebackType
from typing import Self

from queen import errors
from queen.cli.apply.plan import Plan
from queen.cli.support.exit_codes import FileTrouble
from queen.cli.support.output import Format, safe, say
from queen.wire.access import NewToken


def count_new_keys(plan: Plan) -> int:
    """Return how many API keys the plan creates."""
    return sum((each.kind, each.action) == ("key", "create") for each in plan.changes)


def check_secrets(plan: Plan, file: str | None, output: Format) -> None:
    """Raise BadRequest if secrets would be printed into a log."""
    count = count_new_keys(plan)
    is_for_people = sys.stdout.isatty() and output is Format.TABLE
    if count and file is None and not is_for_people:
        raise errors.BadRequest(
            f"The plan creates {count} API key{'' if count == 1 else 's'}. A secret is shown only"
            " once, and this output is not a terminal. Add --secrets FILE to store it. No changes"
            " were made."
        )


class Secrets:
    """
    A file with one JSON line per key, or the terminal.

    The file is opened before any key is created, so that an invalid path loses no secret.
    """

    def __init__(self, plan: Plan, file: str | None) -> None:
        self._file = file if count_new_keys(plan) else None
        self._handle: int | None = None

    def __enter__(self) -> Self:
        if self._file is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            try:
                self._handle = os.open(self._file, flags, 0o600)
            except OSError as error:
                raise FileTrouble(f"cannot write {self._file}: {error.strerror}") from error
            mode = os.fstat(self._handle).st_mode
            # The mode of the call above applies to a new file only.
            if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
                os.close(self._handle)
                raise FileTrouble(
                    f"{self._file} is readable by others. Run `chmod 600 {self._file}`."
                    " No changes were made."
                )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def keep(self, key: NewToken) -> None:
        """Store a secret durably, or print it."""
        if self._handle is None:
            print(f"API key {safe(key.name)}: {key.token}", flush=True)
            say("Store it now: it is not shown again.")
            return
        line = json.dumps({"name": key.name, "id": key.id, "token": key.token})
        try:
            data = f"{line}\n".encode()
            while data:  # One call may write only a part, for example if the disk is full.
                data = data[os.write(self._handle, data) :]
            if os.path.isfile(self._file or ""):
                os.fsync(self._handle)
        except OSError as error:
            raise FileTrouble(
                f"cannot write {self._file}: {error.strerror}. The secret of API key {key.name} is"
                f" lost. Revoke the key with `queen token revoke {key.id}` and run apply again."
            ) from error
