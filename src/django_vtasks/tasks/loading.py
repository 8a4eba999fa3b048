"""From a stored path to a Task, and whether the way leads back."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any
from weakref import WeakSet

from ..framework import AnyTask, InvalidTask, Task, is_module_level_function
from ..jobs.errors import TaskNotFound

MAX_PATH_LENGTH = 255
"""Characters a task's path may have."""

_found: dict[str, AnyTask] = {}
_importable: WeakSet[Callable[..., Any]] = WeakSet()


def load_task(path: str) -> AnyTask:
    """The Task that a module has under a path, imported if need be; kept for the next call.

    Raises TaskNotFound, with the reason, when the module cannot be imported, or has no such name, or what it has is
    no Task. Nothing is called.
    """
    task = _found.get(path)
    if task is None:
        task = _found[path] = _load(path)
    return task


def _load(path: str) -> AnyTask:
    module_name, _, name = path.rpartition(".")
    if not module_name or not name:
        raise TaskNotFound(f"{path!r} is no dotted path to a task")
    try:
        module = import_module(module_name)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise TaskNotFound(f"the module {module_name!r} of the task {path!r} cannot be imported: {error!r}") from error
    try:
        found = getattr(module, name)
    except AttributeError:
        raise TaskNotFound(f"the module {module_name!r} has no task {name!r}; was it renamed or removed?") from None
    if not isinstance(found, Task):
        kind = type(found)
        # With its module where it has one: what another queue declared is known by it.
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise TaskNotFound(f"{path!r} is a {name} and no Task; is its @task decorator the outermost?")
    return found


def check_importable(task: AnyTask) -> None:
    """Raise InvalidTask unless a worker that imports the task's path gets a Task of the same function."""
    function = task.func
    if function in _importable:
        return
    problem = _import_problem(function)
    if problem:
        raise InvalidTask(f"{task.module_path} cannot be enqueued: {problem}")
    _importable.add(function)


def _import_problem(function: Callable[..., Any]) -> str | None:
    module_name, name = function.__module__, function.__qualname__
    if not is_module_level_function(function) or "." in name:
        return "a worker can only import functions at the top level of a module"
    if name == "<lambda>":
        return "a lambda has no name under which a worker could import it"
    if module_name == "__main__":
        return "it is defined in __main__, which is another module in a worker; move it into a module"
    found = getattr(sys.modules.get(module_name), name, None)
    if isinstance(found, Task) and found.func is function:
        return None
    if isinstance(found, Task):
        return f"{module_name}.{name} is a Task of another function"
    if found is None:
        return f"the module {module_name} has nothing named {name}; keep the task under its function's name"
    return f"{module_name}.{name} is a {type(found).__name__} and no Task; make @task the outermost decorator"


def lost_function(path: str) -> Callable[..., Any]:
    """A stand-in for a function that is gone: it has the path and the name, and raises TaskNotFound when called."""
    function = _lost.get(path)
    if function is None:
        function = _lost[path] = _make_lost(path)
    return function


_lost: dict[str, Callable[..., Any]] = {}


def _make_lost(path: str) -> Callable[..., Any]:
    def lost(*_args: Any, **_kwargs: Any) -> None:
        raise TaskNotFound(f"the task {path!r} is not in this code")

    module_name, _, name = path.rpartition(".")
    lost.__module__, lost.__qualname__, lost.__name__ = module_name, name, name
    return lost
