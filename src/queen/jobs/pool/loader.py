"""Import the `QueueManager` that ``MODULE:app`` names."""

import importlib
import os
import sys
from types import ModuleType

from queen import errors
from queen.jobs.app import QueueManager


def load(place: str) -> QueueManager:
    """
    Return the application of ``MODULE:app``, searching the working directory first.

    Raises BadRequest for a missing module, a missing name, or an application without processors.
    """
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise errors.BadRequest(
            f"{place!r} is not an application: write MODULE:app, such as shop.jobs:app"
        )
    module = _module(module_name)
    found: object = module
    for step in name.split("."):
        found = getattr(found, step, None)
    if found is None:
        raise errors.BadRequest(f"{module_name} has no {name}{_hint(module)}")
    if not isinstance(found, QueueManager):
        kind = type(found).__name__
        raise errors.BadRequest(f"{place} is not a QueueManager but a {kind}{_hint(module)}")
    if not found.processors:
        raise errors.BadRequest(f"{place} has no processor: import the modules that register them")
    return found


def _module(name: str) -> ModuleType:
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        is_itself = error.name is not None and f"{name}.".startswith(f"{error.name}.")
        if is_itself:
            raise errors.BadRequest(
                f"module {error.name} is neither in this directory nor in the environment"
            ) from error
        raise errors.BadRequest(f"{name} cannot be imported: it needs {error.name}") from error


def _hint(module: ModuleType) -> str:
    names = [name for name, each in vars(module).items() if isinstance(each, QueueManager)]
    return f"; did you mean {module.__name__}:{names[0]}?" if names else ""
