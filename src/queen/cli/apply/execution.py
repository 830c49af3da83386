"""Make the changes of a plan, and record the outcome of each."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict

from queen import errors
from queen.cli.apply.plan import Action, Change, Kind, Plan, Rules, lost_messages
from queen.cli.apply.state import CONCURRENCY, read_backlogs
from queen.cli.support.exit_codes import FileTrouble
from queen.wire.access import NewToken, TokenRequest
from queen.wire.options import ConfigureRequest
from queen.wire.resources import ScheduleRequest

if TYPE_CHECKING:
    from queen import Queen

_WRITTEN: Final[frozenset[Action]] = frozenset({"create", "change"})
_DELETED: Final[frozenset[Action]] = frozenset({"delete"})
_PHASES: Final[tuple[tuple[Kind, frozenset[Action]], ...]] = (
    ("queue", _WRITTEN),
    ("schedule", _WRITTEN),
    ("key", _WRITTEN),
    ("schedule", _DELETED),
    ("queue", _DELETED),
    ("key", _DELETED),
)
"""Schedules push to queues, so queues are created before them and deleted after them."""


class Execution:
    """
    Makes the changes, phase by phase.

    After a failure, the rest of its phase is completed, and later phases are not started. After an
    interrupt, requests that were sent are completed: the response of a new API key has its secret.
    """

    def __init__(
        self, queen: "Queen", plan: Plan, rules: Rules, keep: Callable[[NewToken], None]
    ) -> None:
        """``keep`` stores the secret of a new API key, which only one response contains."""
        self._queen = queen
        self._plan = plan
        self._rules = rules
        self._keep = keep
        self._started: list[Change] = []
        self._is_stopped = False
        self.applied: list[Change] = []
        self.failed: list[tuple[Change, errors.QueenError | FileTrouble]] = []

    @property
    def count(self) -> int:
        return len(self._plan.changes)

    @property
    def unknown(self) -> list[Change]:
        """The changes that were sent, but have no response."""
        return _without(self._started, [*self.applied, *(change for change, _ in self.failed)])

    @property
    def pending(self) -> list[Change]:
        """The changes that were not attempted."""
        failed = [change for change, _ in self.failed]  # Some were not sent.
        return _without(self._plan.changes, [*self._started, *failed])

    async def run(self) -> None:
        for kind, actions in _PHASES:
            changes = [
                each for each in self._plan.changes if each.kind == kind and each.action in actions
            ]
            if (kind, actions) == ("queue", _DELETED):
                changes = await self._check_backlogs(changes)
            await self._make(changes)
            if self.failed or self._is_stopped:
                return

    async def _check_backlogs(self, changes: list[Change]) -> list[Change]:
        """Return the queues that are still as planned: messages and changes may have arrived."""
        found = await read_backlogs(self._queen, [each.name for each in changes])
        kept: list[Change] = []
        for change in changes:
            backlog = found.get(change.name)
            if backlog is None or backlog.version != change.version:
                problem = errors.VersionMismatch(
                    f"queue {change.name} was changed or deleted since it was compared"
                )
                self.failed.append((change, problem))
            elif backlog.messages != 0 and not self._rules.delete_messages:
                text = lost_messages(change.name, backlog.messages)
                self.failed.append((change, errors.Conflict(text)))
            else:
                kept.append(change)
        return kept

    async def _make(self, changes: Sequence[Change]) -> None:
        waiting = iter(changes)
        working = asyncio.gather(
            *(self._work(waiting) for _ in range(CONCURRENCY)), return_exceptions=True
        )
        try:
            ended = await asyncio.shield(working)
        except asyncio.CancelledError:  # Ctrl-C. A second one ends the process.
            self._is_stopped = True
            await working
            raise
        for each in ended:
            if each is not None:
                raise each

    async def _work(self, waiting: Iterator[Change]) -> None:
        for change in waiting:
            if self._is_stopped:
                return
            self._started.append(change)
            try:
                await self._make_one(change)
            except errors.QueenError as error:
                self.failed.append((change, error))
            except FileTrouble as error:  # The next secret would be lost, too.
                self._is_stopped = True
                self.failed.append((change, error))
            except Exception:
                self._is_stopped = True
                raise
            else:
                self.applied.append(change)

    async def _check_manager(self, schedule: str) -> None:
        """Raise VersionMismatch if another manager has taken a schedule since it was compared."""
        try:
            manager = (await self._queen.admin.schedule(schedule)).managed_by
        except errors.NotFound:
            return
        if manager not in (None, self._plan.manager) and not self._rules.take_over:
            raise errors.VersionMismatch(
                f"schedule {schedule} was changed since it was compared: it has the manager"
                f" {manager}"
            )

    async def _make_one(self, change: Change) -> None:
        admin = self._queen.admin
        match change.request:
            case ConfigureRequest() as request:
                await admin.configure(request, version=change.version)
            case ScheduleRequest() as request:
                await self._check_manager(request.name)
                fields = asdict(request)
                await admin.put_schedule(fields.pop("name"), data=fields.pop("payload"), **fields)
            case TokenRequest() as request if change.id is None:
                self._keep(await admin.create_token(**asdict(request)))
            case TokenRequest() as request:
                await admin.change_token(change.id or "", **asdict(request))
            case None:
                await self._delete(change)

    async def _delete(self, change: Change) -> None:
        admin = self._queen.admin
        if change.kind == "schedule":
            await admin.delete_schedule(change.name)
        elif change.kind == "key":
            await admin.revoke_token(change.id or "")
        else:
            await admin.delete_queue(change.name)


def _without(changes: Sequence[Change], others: Sequence[Change]) -> list[Change]:
    ids = {id(each) for each in others}
    return [each for each in changes if id(each) not in ids]
