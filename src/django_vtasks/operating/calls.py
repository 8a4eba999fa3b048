"""Whether the function of a task can be called with the arguments that an operator gives."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from ..jobs.errors import TaskNotFound
from ..tasks import load_task


def call_problem(path: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Why the task at this path cannot be called like this; None when it can, or when it is not in this code."""
    try:
        task = load_task(path)
        leading = (None,) if task.takes_context else ()
        inspect.signature(task.func, follow_wrapped=False).bind(*leading, *args, **kwargs)
    except TypeError as error:
        return str(error)
    except (TaskNotFound, ValueError):
        pass
    return None
