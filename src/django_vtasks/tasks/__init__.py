"""Tasks: declaring them, their options, and the way from a call to a Job and from a Job to a result.

The names of the 3.2 line's arguments are translated here and nowhere below.
"""

from .arguments import json_arguments
from .building import prepared, task_of, to_datetime, to_epoch, to_job
from .decorator import task
from .loading import check_importable, load_task
from .options import CallOptions, DeclaredOptions, TaskOptions, options_of
from .results import STATUS, VTaskResult, new_result, result_from, show, task_error
from .timing import clock, move_clock, moved_clock
from .unique import Unique
from .vtask import VTask, variant, whole_priority

__all__ = [
    "STATUS",
    "CallOptions",
    "DeclaredOptions",
    "TaskOptions",
    "Unique",
    "VTask",
    "VTaskResult",
    "check_importable",
    "clock",
    "json_arguments",
    "load_task",
    "move_clock",
    "moved_clock",
    "new_result",
    "options_of",
    "prepared",
    "result_from",
    "show",
    "task",
    "task_error",
    "task_of",
    "to_datetime",
    "to_epoch",
    "to_job",
    "variant",
    "whole_priority",
]
