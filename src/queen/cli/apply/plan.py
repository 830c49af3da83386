"""Compare a manifest with a server: the changes that apply makes, and reasons to reject them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from queen.cli.apply.fields import (
    MESSAGE,
    FieldChange,
    differences,
    key_fields,
    masked,
    option_fields,
    queue_fields,
    schedule_fields,
)
from queen.cli.apply.manifest import Manifest, Queue
from queen.cli.apply.state import Backlog, ScheduleState, State
from queen.wire.access import TokenRequest
from queen.wire.options import ConfigureRequest, QueueConfiguration, QueueOptions
from queen.wire.resources import ScheduleRequest

Kind = Literal["queue", "schedule", "key"]
Action = Literal["create", "change", "delete"]

NOUNS: Final[Mapping[Kind, str]] = {"queue": "queue", "schedule": "schedule", "key": "API key"}


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One object to create, change or delete."""

    action: Action
    kind: Kind
    name: str
    fields: tuple[FieldChange, ...] = ()
    request: ConfigureRequest | ScheduleRequest | TokenRequest | None = None
    """Sent to create or change the object."""
    version: int | None = None
    """The version of the queue that was compared. 0: it did not exist."""
    id: str | None = None
    """The id of an existing API key."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All changes in the order in which they are made."""

    manager: str
    changes: list[Change]
    unchanged: int
    conflicts: list[str]
    """Reasons to reject the plan as a whole."""
    notes: list[str]


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `queen apply`."""

    prune: bool = False
    delete_messages: bool = False
    take_over: bool = False


class Planner:
    """Compares one manifest with one state."""

    def __init__(self, manifest: Manifest, state: State, rules: Rules) -> None:
        self._manifest = manifest
        self._manager = manifest.manager
        self._state = state
        self._rules = rules
        self._unchanged = 0
        self._conflicts: list[str] = []
        self._notes: list[str] = []

    @property
    def pruned_queues(self) -> list[str]:
        """The queues that the manager owns and the manifest does not list."""
        return [
            name
            for name, each in self._state.queues.items()
            if self._rules.prune
            and each.options.managed_by == self._manager
            and name not in self._manifest.queues
        ]

    def plan(self, backlogs: Mapping[str, Backlog]) -> Plan:
        """Return the plan. ``backlogs``: the messages of each queue in `pruned_queues`."""
        changes = [*self._queues(), *self._schedules(), *self._keys()]
        if self._rules.prune:
            pruned = [*self._pruned_schedules(), *self._pruned(backlogs), *self._pruned_keys()]
            if pruned and not self._manifest.has_section:
                self._conflicts.append(
                    f"The manifest lists no objects, so --prune would delete everything that"
                    f" {self._manager} manages. If you want that, add `queues: {{}}` to it."
                )
            changes += pruned
        return Plan(
            manager=self._manager,
            changes=changes,
            unchanged=self._unchanged,
            conflicts=self._conflicts,
            notes=self._notes,
        )

    def _queues(self) -> Iterator[Change]:
        for name, wanted in self._manifest.queues.items():
            current = self._state.queues.get(name)
            if current is not None and not self._may_own("queue", name, current.options.managed_by):
                continue
            fields = self._queue_fields(wanted, current)
            values = {each.field: each.new for each in fields}
            request = ConfigureRequest(
                queue=name,
                namespace=values.pop("namespace", None),
                task=values.pop("task", None),
                options=msgspec.convert(values, QueueOptions),
            )
            version = 0 if current is None else current.version
            yield from self._change("queue", name, current, fields, request, version=version)

    def _queue_fields(self, wanted: Queue, current: QueueConfiguration | None) -> list[FieldChange]:
        given: dict[str, Any] = {**msgspec.to_builtins(wanted), "managedBy": self._manager}
        if current is None:
            return differences({}, given)
        defaults = {"namespace": "", "task": "", **option_fields(self._state.defaults)}
        new = {
            name: default if given.get(name) is None else given[name]
            for name, default in defaults.items()
            # A queue is often paused by hand, during an incident.
            if name != "paused" or "paused" in given
        }
        return differences(queue_fields(current), new)

    def _schedules(self) -> Iterator[Change]:
        for name, wanted in self._manifest.schedules.items():
            current = self._state.messages.get(name)
            manager = None if current is None else current.detail.managed_by
            if current is not None and not self._may_own("schedule", name, manager):
                continue
            request = msgspec.structs.replace(wanted, managed_by=self._manager)
            fields = self._schedule_fields(request, current)
            yield from self._change("schedule", name, current, fields, request)

    def _schedule_fields(
        self, wanted: ScheduleRequest, current: ScheduleState | None
    ) -> list[FieldChange]:
        new = schedule_fields(wanted)
        if wanted.paused is None:
            del new["paused"]  # It stays as it is.
        if current is None:
            fields = differences({}, new)
            return masked(fields) if self._is_encrypted(wanted.queue) else fields
        if current.message == "unreadable":
            self._notes.append(
                f"schedule {wanted.name}: the message is masked, so it was not compared. Use an API"
                " key with the consume permission, and a server with the encryption key."
            )
            new = {name: value for name, value in new.items() if name not in MESSAGE}
        fields = differences(schedule_fields(current.detail), new)
        return fields if current.message == "plain" else masked(fields)

    def _is_encrypted(self, queue: str) -> bool:
        wanted, current = self._manifest.queues.get(queue), self._state.queues.get(queue)
        options = wanted if wanted is not None else current and current.options
        return options is not None and options.encryption_enabled is True

    def _keys(self) -> Iterator[Change]:
        for name, wanted in self._manifest.keys.items():
            found = (self._state.keys or {}).get(name, [])
            owned = [each for each in found if each.managed_by == self._manager]
            candidates = owned or found
            if len(candidates) > 1:
                ids = ", ".join(each.id for each in candidates)
                self._conflicts.append(
                    f"{len(candidates)} API keys are named {name}: {ids}. Revoke all but one with"
                    " `queen token revoke`."
                )
                continue
            current = candidates[0] if candidates else None
            if current is not None and not self._may_own("key", name, current.managed_by):
                continue
            request = msgspec.structs.replace(wanted, managed_by=self._manager)
            fields = differences(
                {} if current is None else key_fields(current), key_fields(request)
            )
            id_ = None if current is None else current.id
            yield from self._change("key", name, current, fields, request, id_=id_)

    def _change(
        self,
        kind: Kind,
        name: str,
        current: object,
        fields: list[FieldChange],
        request: Any,  # noqa: ANN401 - one of three
        *,
        version: int | None = None,
        id_: str | None = None,
    ) -> Iterator[Change]:
        if current is not None and not fields:
            self._unchanged += 1
            return
        yield Change(
            action="create" if current is None else "change",
            kind=kind,
            name=name,
            fields=tuple(fields),
            request=request,
            version=version,
            id=id_,
        )

    def _may_own(self, kind: Kind, name: str, manager: object) -> bool:
        """Whether the manager may change an existing object. Otherwise it is a conflict."""
        # A queue of this name is the same queue. Another API key can have the same name.
        is_free = manager is None and kind != "key"
        if is_free or manager == self._manager or self._rules.take_over:
            return True
        owner, remedy = "no manager", "To"
        if manager is not None:
            owner, remedy = f"the manager {manager}", "Check `manager` in the file, or to"
        self._conflicts.append(
            f"{NOUNS[kind]} {name} exists and has {owner}. {remedy} manage it with"
            f" {self._manager}, add --take-over."
        )
        return False

    def _pruned_schedules(self) -> Iterator[Change]:
        for name, each in self._state.schedules.items():
            if each.managed_by == self._manager and name not in self._manifest.schedules:
                yield Change(action="delete", kind="schedule", name=name)

    def _pruned(self, backlogs: Mapping[str, Backlog]) -> Iterator[Change]:
        for name in self.pruned_queues:
            if name not in backlogs:
                continue  # It was deleted in the meantime.
            count = backlogs[name].messages
            fields: list[FieldChange] = []
            if count != 0:
                fields = [FieldChange("messages", "unknown" if count is None else count, 0)]
            if fields and not self._rules.delete_messages:
                self._conflicts.append(lost_messages(name, count))
            version = self._state.queues[name].version
            yield Change(
                action="delete", kind="queue", name=name, fields=tuple(fields), version=version
            )

    def _pruned_keys(self) -> Iterator[Change]:
        if self._state.keys is None:
            self._notes.append(
                "API keys were not checked for pruning, because that needs the admin permission."
            )
            return
        for name, found in self._state.keys.items():
            for each in found:
                if each.managed_by == self._manager and name not in self._manifest.keys:
                    yield Change(action="delete", kind="key", name=name, id=each.id)


def lost_messages(queue: str, count: int | None) -> str:
    """Return why a queue with messages is not deleted, and what to do."""
    shown = "an unknown number of" if count is None else f"{count:,}"
    noun = "message" if count == 1 else "messages"
    return (
        f"queue {queue} has {shown} unacknowledged {noun}. Wait until consumers have acknowledged"
        " all messages, or add --delete-messages to delete them with the queue."
    )
