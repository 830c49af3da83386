"""Write the present state of a server as a manifest."""

from collections.abc import Mapping
from typing import Any, Final

from queen.cli.apply.fields import (
    is_same,
    key_fields,
    option_fields,
    queue_fields,
    schedule_fields,
)
from queen.cli.apply.state import State
from queen.wire.options import plain

_SCHEDULE_DEFAULTS: Final = {
    **{"partition": "Default", "timeZone": "UTC", "missed": "once"},
    # Set to false, the manifest would resume schedules that are paused later.
    "paused": False,
}


class Exporter:
    """Collects objects without a manager, and those of the manager itself."""

    def __init__(self, state: State, manager: str) -> None:
        self._state = state
        self._manager = manager
        self.notes: list[str] = []
        """Objects that are missing, and why."""

    def manifest(self) -> dict[str, Any]:
        """Return a manifest. Applied to the same server, it only sets the manager."""
        sections = {
            "queues": self._queues(),
            "schedules": self._schedules(),
            "keys": self._keys(),
        }
        return {
            "manager": self._manager,
            **{name: section for name, section in sections.items() if section},
        }

    def _queues(self) -> dict[str, Any]:
        defaults = {"namespace": "", "task": "", **option_fields(self._state.defaults)}
        return {
            name: _without(queue_fields(queue), defaults)
            for name, queue in self._state.queues.items()
            if self._is_ours("queue", name, queue.options.managed_by)
        }

    def _schedules(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, schedule in self._state.messages.items():
            if not self._is_ours("schedule", name, schedule.detail.managed_by):
                continue
            if schedule.message == "unreadable":
                self.notes.append(
                    f"schedule {name} is missing, because its message is masked. Add --reveal, and"
                    " use an API key with the consume permission."
                )
            else:
                found[name] = _without(schedule_fields(schedule.detail), _SCHEDULE_DEFAULTS)
        return found

    def _keys(self) -> dict[str, Any]:
        if self._state.keys is None:
            self.notes.append("API keys are missing, because listing them needs admin permission")
            return {}
        found: dict[str, Any] = {}
        for name, keys in self._state.keys.items():
            ours = [each for each in keys if self._is_ours("API key", name, each.managed_by)]
            if len(ours) > 1:
                ids = ", ".join(each.id for each in ours)
                self.notes.append(f"API key {name} is missing, because several have it: {ids}")
            elif ours:
                found[name] = _without(key_fields(ours[0]), {})
        return found

    def _is_ours(self, noun: str, name: str, manager: object) -> bool:
        if manager in (None, self._manager):
            return True
        self.notes.append(f"{noun} {name} is missing, because it has the manager {manager}")
        return False


def _without(fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have another value than the default."""
    return {
        name: plain(value)
        for name, value in fields.items()
        if name != "managedBy" and not is_same(value, defaults.get(name))
    }
