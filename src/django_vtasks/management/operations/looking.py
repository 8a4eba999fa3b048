"""Subcommands that only look: status, workers, jobs, explain."""

import time
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError

from ...jobs.model import JobRecord, JobState
from ...operating.explain import explain
from ...operating.facts import facts_about
from ...operating.overview import Overview, overview_of
from ...operating.reports import job_report, overview_report, reason_report, worker_report
from ...operating.wording import duration, moment, short_class, shortened
from ...tasks.redaction import hiding_of
from ..numbers import interval, whole
from .base import FAILED, UNAVAILABLE, Console, Operation, Options, chosen_aliases, first_that_knows, one_alias
from .filters import add_filters, filter_of

CLEAR = "\x1b[H\x1b[2J"


class Status(Operation):
    """Queues and what needs attention."""

    name = "status"
    help = "Queues, workers and what needs attention, for every alias."
    all_aliases = True

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep

    def add_arguments(self, parser: Any) -> None:
        """How often, and whether problems are an error."""
        parser.add_argument("--watch", action="store_true", help="Redraw until interrupted.")
        parser.add_argument(
            "--interval",
            type=interval(0.1),
            default=2.0,
            metavar="S",
            help="Seconds between two drawings (default: 2).",
        )
        parser.add_argument("--check", action="store_true", help="Exit with 1 when something is wrong.")

    def run(self, console: Console, options: Options) -> None:
        """Print once, or until interrupted."""
        if options["watch"]:
            self._watch(console, options)
            return
        seen = [overview_of(alias) for alias in chosen_aliases(options)]
        if console.as_json:
            console.json([overview_report(one) for one in seen])
        else:
            _draw(console, seen)
        _judge(seen, options)

    def _watch(self, console: Console, options: Options) -> None:
        try:
            while True:
                seen = [overview_of(alias) for alias in chosen_aliases(options)]
                if console.is_terminal:
                    console.out.write(CLEAR)
                console.line(f"{moment(time.time())}, every {duration(options['interval'])}; Ctrl-C ends")
                _draw(console, seen)
                self._sleep(options["interval"])
        except KeyboardInterrupt:
            return


def _draw(console: Console, overviews: list[Overview]) -> None:
    for seen in overviews:
        console.line()
        console.line(f"== {seen.alias}")
        if seen.problem:
            console.line(f"error: the store cannot be reached: {seen.problem}")
            continue
        console.table(
            (
                *("QUEUE", "READY", "DELAYED", "RUNNING", "DEAD", "OLDEST"),
                *("DONE/MIN", "FAILED/MIN", "WORKERS", "SLOTS", "STATE"),
            ),
            [
                (
                    queue.counts.queue,
                    queue.counts.ready,
                    queue.counts.scheduled,
                    queue.counts.leased,
                    queue.counts.dead,
                    _or_dash(queue.oldest_wait(seen.at)),
                    queue.history.rates.succeeded,
                    queue.history.rates.failed,
                    queue.workers,
                    f"{queue.busy}/{queue.slots}",
                    "paused" if queue.counts.paused else "served" if queue.workers else "not served",
                )
                for queue in seen.queues
            ],
        )
        for finding in seen.findings:
            console.line(f"{finding.severity}: {finding.text}{' ' if finding.hint else ''}{finding.hint}")


def _or_dash(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def _judge(overviews: list[Overview], options: Options) -> None:
    away = [seen.alias for seen in overviews if seen.problem]
    if away:
        raise CommandError(f"The store of {', '.join(away)} cannot be reached.", returncode=UNAVAILABLE)
    wrong = [finding.text for seen in overviews for finding in seen.findings if finding.severity == "error"]
    if options["check"] and wrong:
        raise CommandError(wrong[0], returncode=FAILED)


class Workers(Operation):
    """Live workers."""

    name = "workers"
    help = "Live workers: host, process, version, queues, slots, last heard of."
    all_aliases = True

    def run(self, console: Console, options: Options) -> None:
        """Print them."""
        seen = [overview_of(alias) for alias in chosen_aliases(options)]
        if console.as_json:
            console.json([{"alias": one.alias, **worker_report(worker)} for one in seen for worker in one.workers])
        else:
            console.table(
                ("ALIAS", "WORKER", "HOST", "PID", "VERSION", "QUEUES", "BUSY", "STARTED", "SEEN"),
                [
                    (
                        one.alias,
                        worker.info.worker_id,
                        worker.info.host,
                        str(worker.info.pid),
                        worker.info.version,
                        ",".join(worker.info.queues),
                        f"{worker.info.running}/{worker.info.concurrency}",
                        f"{duration(one.at - worker.info.started_at)} ago",
                        f"{duration(one.at - worker.info.seen_at)} ago",
                    )
                    for one in seen
                    for worker in one.workers
                ],
            )
            if not any(one.workers or one.problem for one in seen):
                console.line("No worker is running: manage.py runworker")
        _judge(seen, {"check": False})


class Jobs(Operation):
    """Jobs of one state."""

    name = "jobs"
    help = "Jobs of one state, a page at a time."

    def add_arguments(self, parser: Any) -> None:
        """Which jobs, how many."""
        choices = [state.value for state in JobState]
        parser.add_argument("--state", choices=choices, default=JobState.READY.value, help="Default: ready.")
        add_filters(parser)
        parser.add_argument("--limit", type=whole(1), default=50, metavar="N", help="How many (default: 50).")
        parser.add_argument("--after", help="What the page before said to continue with.")

    def run(self, console: Console, options: Options) -> None:
        """Print one page."""
        alias = one_alias(options)
        which = filter_of(JobState(options["state"]), options)
        page = alias.admin.page(which, after=options["after"], limit=options["limit"])
        if console.as_json:
            jobs = [job_report(alias.name, record) for record in page.records]
            console.json({"jobs": jobs, "next": page.next_cursor})
            return
        draw_jobs(console, page.records)
        if not page.records:
            others = ", ".join(state.value for state in JobState if state is not which.state)
            console.line(f"No such job is {options['state']} in {alias.name}; --state has {others}.")
        if page.next_cursor:
            console.line(f"more: --after {page.next_cursor}")


def draw_jobs(console: Console, records: tuple[JobRecord, ...]) -> None:
    """A table of jobs."""
    console.table(
        ("ID", "TASK", "QUEUE", "PRIORITY", "ATTEMPTS", "WHEN", "DETAILS"),
        [
            (
                record.job.id,
                record.job.func or "(undecodable)",
                record.job.queue,
                record.job.priority,
                record.job.starts,
                moment(when(record)),
                details(record),
            )
            for record in records
        ],
    )


def when(record: JobRecord) -> float | None:
    """The moment that matters in a job's state: due, started, ended or enqueued."""
    if record.state is JobState.SCHEDULED:
        return record.job.run_after
    if record.running:
        return record.running.started_at
    return record.finished_at or record.job.enqueued_at or None


def details(record: JobRecord) -> str:
    """What else matters in a job's state, in one line."""
    if record.running:
        return record.running.worker_id
    failure = record.letter.failure if record.letter else None
    if failure is None and record.job.attempts:
        failure = record.job.attempts[-1].failure
    if failure is None:
        return ""
    return shortened(f"{short_class(failure.exception_class)}: {hiding_of(record.job)(failure.message)}", 80)


class Explain(Operation):
    """Why a job is not running."""

    name = "explain"
    help = "Why a job is not running, or what became of it."
    all_aliases = True

    def add_arguments(self, parser: Any) -> None:
        """Which job."""
        parser.add_argument("id", metavar="ID", help="Id of the job.")

    def run(self, console: Console, options: Options) -> None:
        """Print the reasons, the decisive one first."""
        among = chosen_aliases(options)
        alias, facts = first_that_knows(options["id"], among, lambda one: facts_about(one, options["id"]))
        record, reasons = facts.standing.record, explain(facts)
        if console.as_json:
            report = job_report(alias.name, record)
            console.json({**report, "reasons": [reason_report(reason) for reason in reasons]})
            return
        console.line(f"{record.job.id} of {alias.name}: {record.job.func or '(undecodable)'}, {record.state.value}")
        for reason in reasons:
            console.line(f"- {reason.text}{' ' if reason.hint else ''}{reason.hint}")
