"""Write docs/reference/*.md: what is true is read from the code, what it means is said here.

`python docs/generate.py` writes the pages; a test fails when they differ from the code or a meaning is missing.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NOTE = "<!-- Written by docs/generate.py. -->\n"

SETTINGS = {
    "VTASKS_QUEUES": "The queues a worker serves: names, or names with [options](#queues).",
    "VTASKS_CONCURRENCY": "Slots of a worker: jobs that run at once.",
    "VTASKS_RUN_SCHEDULER": "Whether a worker [inside an ASGI server](../guides/asgi.md) fires schedule entries. "
    "`runworker` has `--scheduler` for that.",
    "VTASKS_SCHEDULE": "Schedule entries by name ([schedules](../guides/schedules.md)).",
    "VTASKS_DLQ_CAP": "Dead letters kept per alias; what falls off the end is counted and logged.",
    "VTASKS_DLQ_MAX_AGE": "Seconds a dead letter is kept; `None`: until the cap removes it.",
    "VTASKS_VALKEY_PREFIX": "What every key in Valkey begins with; a colon is added.",
    "VTASKS_METRICS_PORT": "Port for `/metrics` alone.",
    "VTASKS_HEALTH_PORT": "Port for `/livez`, `/readyz` and `/metrics`.",
    "VTASKS_HEALTH_CHECK_FILE": "File rewritten every 5 s while the worker is healthy; `{pid}` is the process.",
    "VTASKS_WORKER_ID": "The name operators see; `None`: host name and process id. It decides nothing.",
    "VTASKS_BACKEND": "The alias of `TASKS` that a worker works for.",
    "VTASKS_MAX_RESCUES": "Starts allowed after a worker died in the middle of a job "
    "([guarantees](../discussions/guarantees.md)).",
    "VTASKS_HEARTBEAT_INTERVAL": "Seconds between renewals of a worker's lease.",
    "VTASKS_LEASE_SECONDS": "Seconds a lease lasts without renewal; `None`: three heartbeats.",
    "VTASKS_QUEUE_ORDER": "`fair`: each queue in turn, as often as its weight says; `strict`: always in the "
    "order given.",
    "VTASKS_RESCUE_INTERVAL": "Seconds between looks for leases that ran out.",
    "VTASKS_SHUTDOWN_TIMEOUT": "Seconds that running jobs get when the worker stops.",
    "VTASKS_SHUTDOWN_CANCEL_GRACE": "Inside an ASGI server: seconds after which open requests are cancelled at a "
    "stop; `None`: never.",
    "VTASKS_TASK_CONTEXT": "A callable, or its dotted path, that returns a context manager entered around each "
    "attempt. It gets `task_id`, `task_ids`, `name` and `queue`.",
    "VTASKS_RESULT_TTL": "Seconds a result is kept after the end; `0`: none; `None`: 600 on Valkey, 86,400 in a "
    "database.",
    "VTASKS_MAX_JOB_BYTES": "Size above which a job is refused.",
    "VTASKS_MAX_ATTEMPTS": "Attempts of tasks that do not say.",
    "VTASKS_BACKOFF": "Backoff of tasks that do not say ([retries](../guides/retries.md)).",
    "VTASKS_TASK_TIMEOUT": "Seconds one attempt may take, for tasks that do not say; `None`: no bound.",
    "VTASKS_SCHEDULE_TIMEZONE": "IANA zone of cron expressions without their own.",
    "VTASKS_LOOP_BLOCK_THRESHOLD": "Seconds of a blocked event loop that are reported with its stack; `0`: never.",
    "VTASKS_MAX_ABANDONED_THREADS": "Threads that may run on after their attempt was given up; beyond that the slot "
    "waits.",
}
QUEUE = {
    "worker_concurrency": "Slots of one worker that this queue may take.",
    "batch": "Hand jobs over in groups, see below.",
    "weight": "How often the queue is asked first, beside the others (1).",
    "result_ttl": "As `VTASKS_RESULT_TTL`. A batch queue keeps none unless it says so.",
    "max_attempts": "As `VTASKS_MAX_ATTEMPTS`.",
    "timeout": "As `VTASKS_TASK_TIMEOUT`.",
    "limit": "A `Concurrency`, or a dict of its arguments, for the whole fleet "
    "([limits](../guides/unique.md#limits)).",
    "rate": "A `Rate`, or a dict of its arguments, for the whole fleet.",
}
BATCH = {
    "count": "Jobs in a batch at most. Required.",
    "timeout": "Seconds a batch is collected at most. Required.",
    "max_bytes": "Bytes of arguments in a batch at most.",
    "group_by": "A keyword argument whose value separates groups.",
    "on_failure": '`"group"` (default): an exception fails all members; `"one_by_one"`: each then runs alone.',
}
OPTIONS = {
    "DLQ_CAP": "As `VTASKS_DLQ_CAP`, for this alias. May stand beside `OPTIONS` too.",
    "RAISE_AT_COMMIT": "Whether a push that fails at the commit raises (`True`) or is only logged.",
    "DATABASE": "Alias of `DATABASES`; default: where the router puts the models.",
    "cache_alias": "Alias of `CACHES` whose connection is used.",
    "BROKER_URL": "`valkey://host:port/db`, with `valkeys://` for TLS, `sentinel://` and `unix://`; `redis` in place "
    "of `valkey` means the same. Several URLs in a list or with commas.",
    "CLUSTER_MODE": "`True` for a cluster.",
    "PREFIX": "As `VTASKS_VALKEY_PREFIX`, for this alias.",
    "BLOCKING_TIMEOUT": "Seconds a worker waits for jobs in one call (1).",
    "CONNECT_TIMEOUT": "Seconds to connect.",
    "SOCKET_TIMEOUT": "Seconds to wait for an answer.",
}
CHECKS = {
    "E001": "A database backend without its app `django_vtasks.db`.",
    "E002": "A setting or option has a value that cannot be used.",
    "E003": "`QUEUES` is no list of names.",
    "E004": "`OPTIONS` is no dict.",
    "E005": "`DATABASE` names no alias of `DATABASES`.",
    "E006": "A Valkey backend that does not say where the server is, or with a URL that cannot be read.",
    "E007": "`cache_alias` names no alias of `CACHES`.",
    "E008": "A Valkey backend without a client library.",
    "W001": "`VTASKS_SCHEDULE` is no dict.",
    "W002": "A schedule entry that is none, or is defined twice.",
    "W003": "A schedule entry whose task cannot be found.",
    "W004": "A schedule entry without a schedule.",
    "W005": "A cron expression that cannot be read or never fires.",
    "W006": "A schedule of the wrong type.",
    "W007": "A schedule that is a truth value.",
    "W008": "An interval that is not positive.",
    "W009": "A schedule entry with unknown keys.",
    "W010": "An unknown key in `TASKS` or its `OPTIONS`.",
    "W011": "A setting `VTASKS_…` that does not exist.",
    "W012": "No zstd in this Python: large jobs cannot be written to Valkey.",
    "W013": "An option of a schedule entry, or `VTASKS_SCHEDULE_TIMEZONE`, that cannot be used.",
    "W014": "The schedule entries of the database cannot be read.",
    "W015": "A setting of Celery that has no effect on tasks of `django_vtasks.contrib.celery`.",
    "W016": "A receiver of a signal of Celery that no job here sends.",
}
COMMANDS = ("runworker", "vtasks", "vtasks_health")
SAME = {
    "vtasks_dlq": "vtasks dlq",
    "vtasks_schedule": "vtasks schedule",
    "vtasks_watch": "vtasks watch",
    "clear_queue": "vtasks clear_queue",
}
SIGNALS = {
    "task_started": "`task_id`, `task_ids`, `name`, `args`, `kwargs`",
    "task_finished": "`task_id`, `task_ids`, `name`, `duration` (seconds)",
    "task_failure": "`task_id`, `task_ids`, `name`, `exception`, `traceback` (text)",
    "task_retried": "`task_id`, `task_ids`, `name`, `exception`, `delay` (seconds), `attempt`",
}


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def code(value: Any) -> str:
    return f"`{value}`"


def settings_page() -> str:
    from django_vtasks.backends.db import DatabaseTaskBackend
    from django_vtasks.backends.valkey import ValkeyTaskBackend
    from django_vtasks.conf import DEFAULTS, ENV_TYPES

    kinds = {int: "whole number", float: "number", bool: "`1`, `true` or `yes`", str: "text"}
    kinds |= {list: "names with commas, or JSON", dict: "JSON object"}
    rows = [
        (code(name), code(repr(DEFAULTS[name])), kinds[ENV_TYPES[name]], meaning) for name, meaning in SETTINGS.items()
    ]
    return f"""# Settings

A setting of the project counts; else the environment variable of the same name, read as the column *environment* says;
else the default. `manage.py check` reports what is wrong, with the name that was probably meant. A worker refuses to
start with settings that cannot be used, and lists all of them.

{table(("setting", "default", "environment", "meaning"), rows)}
## TASKS

```python
TASKS = {{
    "default": {{
        "BACKEND": "django_vtasks.backends.db.DatabaseTaskBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {{}},
    }}
}}
```

`QUEUES` names the queues that `enqueue` accepts, beside those of `VTASKS_QUEUES` where that is set. Left out it is
`["default"]`; `[]` accepts any name.

Options of every backend:

{pairs(base_options(), "option")}
Further options of `django_vtasks.backends.db.DatabaseTaskBackend`:

{pairs(own_options(DatabaseTaskBackend), "option")}
Further options of `django_vtasks.backends.valkey.ValkeyTaskBackend`:

{pairs(own_options(ValkeyTaskBackend), "option")}
For tests there are `django_vtasks.backends.immediate.ImmediateBackend`, which runs a task where it is enqueued, and
`django_vtasks.backends.memory.MemoryTaskBackend`, which keeps jobs in the memory of the process.

## Queues

Options of one queue in `VTASKS_QUEUES`:

{pairs(QUEUE, "option")}
Keys of `batch`:

{pairs(BATCH, "key")}
## Checks

`manage.py check` gives these numbers, with the prefix `django_vtasks.`.

{pairs(CHECKS, "number")}"""


def pairs(meanings: Mapping[str, str], heading: str) -> str:
    return table((heading, "meaning"), [(code(name), meaning) for name, meaning in meanings.items()])


def base_options() -> dict[str, str]:
    from django_vtasks.backends.base import VTasksBaseBackend

    return {name: OPTIONS[name] for name in OPTIONS if name in VTasksBaseBackend.known_options}


def own_options(backend: Any) -> dict[str, str]:
    return {
        name: text for name, text in OPTIONS.items() if name in backend.known_options and name not in base_options()
    }


def commands_page() -> str:
    return f"""# Commands

Every command also takes Django's own flags, such as `--settings`. Exit codes are in
[see and operate it](../guides/operating.md#on-the-command-line).

{"".join(command_section(name) for name in COMMANDS)}## The same under names of their own

{table(("command", "the same as"), [(code(name), code(other)) for name, other in SAME.items()])}"""


def command_section(name: str) -> str:
    from django.core.management import load_command_class

    command = load_command_class("django_vtasks", name)
    parser = command.create_parser("manage.py", name)
    return f"## {name}\n\n{command.help}\n\n{''.join(parser_section(parser, name, level=3))}"


def parser_section(parser: argparse.ArgumentParser, path: str, *, level: int) -> Iterator[str]:
    rows = [(spelled(action), said(action, parser)) for action in parser._actions if is_own(action)]
    if rows:
        yield f"{table(('argument', 'meaning'), rows)}\n"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield f"{'#' * min(level, 4)} {path} {name}\n\n{child.description}\n\n"
                yield from parser_section(child, f"{path} {name}", level=level + 1)


DJANGOS = frozenset(
    ("help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color", "skip_checks")
)


def is_own(action: argparse.Action) -> bool:
    return action.dest not in DJANGOS and not isinstance(action, argparse._SubParsersAction)


def spelled(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else action.dest
    if not action.option_strings:
        many = " …" if action.nargs in ("*", "+") else ""
        return code(f"{name}{many}")
    if action.choices:
        name = ",".join(map(str, action.choices))
    takes = "" if action.nargs == 0 else f" {name}"
    return ", ".join(code(f"{flag}{takes}") for flag in action.option_strings)


def said(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    values = {**vars(action), "prog": parser.prog}
    return ((action.help or "") % values).replace("<", "&lt;").strip()


def metrics_page() -> str:
    rows = [(code(name), kind, ", ".join(map(code, labels)), text) for name, kind, labels, text in all_metrics()]
    signals = [(code(name), arguments) for name, arguments in SIGNALS.items()]
    return f"""# Metrics and signals

## Metrics

They need the extra `metrics`. [Monitoring](../guides/monitoring.md) says how to get at them and what to watch.

{table(("name", "kind", "labels", "meaning"), rows)}
`status` is `success` or `failure`; `outcome` is one of {", ".join(map(code, outcomes()))}; `reason` is one of
{", ".join(map(code, reasons()))}. `task_name` is the path of the task, in `vtasks_tasks_submitted_total` the name of
its function, as in the 3.2 line.

`use` of a connection is `store` (claims and outcomes), `lease` (its renewal), `wait` (for new jobs) or `functions`:
slots whose functions have database connections, each one for every database it used. One that the server ended counts
as open until its next use. A worker sets its gauges every 15 s.

`vtasks_jobs`, `vtasks_oldest_ready_seconds`, `vtasks_queue_paused` and `vtasks_store_up` come from
`django_vtasks.metrics.QueueCollector`, which reads the store when it is scraped.

## Signals

The framework's own (`task_enqueued`, `task_started`, `task_finished` of `django.tasks.signals`) are sent for the final
outcome. Those of `django_vtasks.signals` are sent for each attempt; each sends exactly one of finished, failure and
retried, in the context of the task's body.

{table(("signal", "arguments"), signals)}
For one job `task_id` is set and `task_ids` is `None`. For a batch `task_id` is `None`, `task_ids` is a list, and
`args` and `kwargs` are lists with one element for each job. Receivers may be plain functions or `async def`.
"""


def outcomes() -> list[str]:
    from django_vtasks.jobs.model import OutcomeKind

    return [kind.value for kind in OutcomeKind]


def reasons() -> list[str]:
    from django_vtasks.jobs.model import DeadReason

    return [reason.value for reason in DeadReason]


def all_metrics() -> Iterator[tuple[str, str, Sequence[str], str]]:
    """Name, kind, labels and meaning of each metric, in the order of the module."""
    from django_vtasks import metrics

    for metric in vars(metrics).values():
        if hasattr(metric, "_labelnames"):
            name = f"{metric._name}_total" if metric._type == "counter" else metric._name
            yield name, metric._type, metric._labelnames, metric._documentation
    for family in metrics.QueueCollector({}).collect():
        yield family.name, family.type, family._labelnames, family.documentation


def benchmarks_page() -> str:
    from benchmarks.report import page
    from benchmarks.results import Results

    published = Results.newest()
    if published is None:
        figures = "Nothing was published yet."
    else:
        figures = f"![bars](../images/benchmarks.svg)\n\n{page(published)}"
    return f"""# Benchmarks

One worker of each product, on the store its users have, doing as little as possible in each job: what is measured is
the price of the queue. What exactly, and the one command that does it, is in the repository, in
`benchmarks/README.md`. Ratios of one run hold, single figures depend on the machine.

{figures}"""


PAGES = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "metrics.md": metrics_page,
    "benchmarks.md": benchmarks_page,
}


def main() -> None:
    sys.path[:0] = [str(HERE.parent), str(HERE.parent / "src")]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.project.settings")
    import django

    django.setup()
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(NOTE + page().rstrip() + "\n")


if __name__ == "__main__":
    main()
