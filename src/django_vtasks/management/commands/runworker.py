"""`manage.py runworker`: runs one worker until a signal, or until nothing is due."""

import argparse
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...backends.base import VTasksBaseBackend
from ...conf import WorkerConfig, queue_names, settings
from ...framework import InvalidTaskBackend, task_backends
from ...jobs.errors import QueueError
from ..numbers import seconds, whole

LONGEST_ID = 64


class Command(BaseCommand):
    """Runs one worker."""

    help = "Run the jobs of one TASKS alias, until a signal or until nothing is due."
    requires_system_checks: Any = []
    owns_process = False

    def add_arguments(self, parser: CommandParser) -> None:
        """The flags; every default comes from the settings."""
        add = parser.add_argument
        add("--queue", action="append", metavar="NAME", help="a queue to work on; repeatable, * for all of them")
        add("--concurrency", type=whole(1), metavar="N", help="how many jobs run at once")
        add("--backend", metavar="ALIAS", help="the alias of TASKS to work for")
        add("--scheduler", action="store_true", help="also fire schedule entries; any number of workers may")
        add("--id", metavar="TEXT", help="the name that operators see (default: host name and process id)")
        add("--health-check-file", metavar="PATH", help="rewrite this file every 5 s while the worker is healthy")
        add("--health-port", type=whole(0, 65_535), metavar="PORT", help="serve /livez, /readyz and /metrics")
        add("--metrics-port", type=whole(0, 65_535), metavar="PORT", help="serve /metrics")
        add("--shutdown-timeout", type=seconds, metavar="S", help="seconds running jobs get when the worker stops")
        add("--batch", "--drain", action="store_true", dest="drain", help="exit as soon as nothing is due")
        add("--max-jobs", "--max-tasks", type=whole(1), metavar="N", help="exit after so many jobs")
        add("--interval", type=seconds, metavar="S", help="ask the store at least this often, whatever it announces")
        add("--exit-empty", type=whole(0, 255), metavar="N", help="exit with this code when no job was run")
        add("--exit-failed", type=whole(0, 255), metavar="N", help="exit with this code when a job failed for good")
        add("--reload", action=argparse.BooleanOptionalAction, default=False, help="restart when code changes")

    def run_from_argv(self, argv: list[str]) -> None:
        """Run in a process of its own, and end that whatever tasks left behind."""
        self.owns_process = True
        from ...worker.shutdown import leave_behind

        try:
            super().run_from_argv(argv)
        except SystemExit as end:
            leave_behind(end.code if isinstance(end.code, int) else int(end.code is not None))
            raise
        leave_behind(0)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run the worker. Raises CommandError for wrong flags and for a worker that crashed."""
        if options["reload"]:
            self._run_reloading(options)
        else:
            self._run(options)

    def _run(self, options: dict[str, Any]) -> None:
        def status(standalone: Any) -> int:
            return _status(standalone, options)

        standalone = self._standalone(options, status if self.owns_process else None)
        standalone.run()
        if code := status(standalone):
            raise SystemExit(code)

    def _run_reloading(self, options: dict[str, Any]) -> None:
        from django.conf import settings as django_settings

        from ...worker import reloading

        if options["drain"] or options["max_jobs"]:
            raise CommandError("--reload is for a worker that stays: leave --batch and --max-jobs out.")
        if not django_settings.DEBUG:
            raise CommandError("--reload works with DEBUG = True only.")
        if not reloading.is_child():
            raise SystemExit(reloading.Parent().run())
        running: list[Any] = []

        def run() -> None:
            running.append(self._standalone(options))
            running[0].run()

        def end() -> None:
            for standalone in running:
                standalone.end_from_outside()

        reloading.run_until_code_changes(run, end)

    def _standalone(self, options: dict[str, Any], status: Callable[[Any], int] | None = None) -> Any:
        from ...worker.runtime import RunLimits
        from ...worker.standalone import Console, Standalone
        from ...worker.worker import Worker

        backend = _backend(options)
        if self.owns_process and backend.is_private:
            raise CommandError(_NOTHING_TO_SEE.format(alias=backend.alias, location=backend.location))
        try:
            worker = Worker(backend, config=_config(options))
            _ = backend.client_store  # opens nothing, and says what a store is missing: its app, its driver
            where = backend.location
        except (ImproperlyConfigured, QueueError) as error:
            raise CommandError(str(error)) from error
        for hint in _hints(options["queue"] or (), queue_names() | backend.queues):
            self.stderr.write(hint)
        worker.limits = RunLimits(drain=options["drain"], max_jobs=options["max_jobs"], interval=options["interval"])
        if worker.config.run_scheduler:
            from ...scheduling.scheduler import NAME, make_service

            worker.add_service(NAME, make_service(backend))
        return Standalone(worker, where, Console(self.stdout, options["verbosity"]), status)


_NOTHING_TO_SEE = (
    "TASKS[{alias!r}] keeps its jobs in memory ({location}): what other processes enqueue is never seen here. "
    "Use a database file or a server; for tests there is django_vtasks.testing."
)


def _status(standalone: Any, options: dict[str, Any]) -> int:
    """The exit status asked for; a failure counts for more than an empty run."""
    if options["exit_failed"] and standalone.failed:
        return int(options["exit_failed"])
    if options["exit_empty"] and not standalone.begun:
        return int(options["exit_empty"])
    return 0


def _backend(options: dict[str, Any]) -> Any:
    alias = options["backend"] or settings.VTASKS_BACKEND
    try:
        backend = task_backends[alias]
    except InvalidTaskBackend as error:
        known = ", ".join(task_backends) or "none"
        raise CommandError(f"TASKS has no alias {alias!r}; it has: {known}. ({error})") from error
    if not isinstance(backend, VTasksBaseBackend):
        raise CommandError(
            f"TASKS[{alias!r}] is a {type(backend).__name__}: runworker works for backends of this app."
        )
    return backend


def _config(options: dict[str, Any]) -> WorkerConfig:
    if "" in (options["queue"] or ()):
        raise CommandError("--queue needs the name of a queue; leave it out for those of VTASKS_QUEUES.")
    worker_id = options["id"]
    if worker_id is not None and not 0 < len(worker_id.strip()) <= LONGEST_ID:
        raise CommandError(f"--id must be 1 to {LONGEST_ID} characters long.")
    return WorkerConfig.from_settings(
        options["backend"],
        queues=options["queue"],
        concurrency=options["concurrency"],
        worker_id=worker_id,
        health_check_file=options["health_check_file"],
        health_port=options["health_port"],
        metrics_port=options["metrics_port"],
        shutdown_timeout=options["shutdown_timeout"],
        run_scheduler=options["scheduler"],
    )


def _hints(names: Iterable[str], known: set[str]) -> list[str]:
    """A sentence for each queue that nobody names and whose name is nearly that of another one."""
    unknown = [name for name in names if name not in known]
    nearest = [(name, near) for name in unknown for near in get_close_matches(name, known, n=1)]
    return [
        f"--queue {name}: neither VTASKS_QUEUES nor TASKS has it; did you mean {near!r}?" for name, near in nearest
    ]
