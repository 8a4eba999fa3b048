"""Signals of the 3.2 line, and one of our own for retries. The framework's signals live in `django.tasks.signals`.

`task_started`   task_id, task_ids, name, args, kwargs
`task_finished`  task_id, task_ids, name, duration (seconds)
`task_failure`   task_id, task_ids, name, exception, traceback (text)
`task_retried`   task_id, task_ids, name, exception, delay (seconds), attempt

One job: `task_id` is set and `task_ids` is None. A batch group: `task_id` is None, `task_ids` is a list, and `args`
and `kwargs` are lists with one element per job. Each execution sends exactly one of finished, failure and retried, in
the context of the task's body. The sender is the `Worker` class, or the backend class under ImmediateBackend.
"""

from django.dispatch import Signal

task_started = Signal()
task_finished = Signal()
task_failure = Signal()
task_retried = Signal()

__all__ = ["task_failure", "task_finished", "task_retried", "task_started"]
