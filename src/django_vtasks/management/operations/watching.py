"""`watch ID`: a progress bar until the job ends."""

import time
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError

from ...jobs.model import JobRecord, JobState
from ...jobs.texts import visible
from ...operating.aliases import Alias
from ...operating.reports import job_report
from ...operating.wording import duration, shortened
from ...tasks.redaction import veiled
from ..numbers import interval, seconds
from .base import FAILED, Console, Operation, Options, chosen_aliases, first_that_knows, not_found

BAR = 30


class Watch(Operation):
    """Follow one job."""

    name = "watch"
    help = "Follow a job with a progress bar until it ends; exit with 1 when it did not succeed."
    all_aliases = True

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep

    def add_arguments(self, parser: Any) -> None:
        """Which job, how long, how often."""
        parser.add_argument("id", metavar="ID", help="Id of the job.")
        parser.add_argument(
            "--timeout", type=seconds, metavar="S", help="Seconds after which to give up (default: never)."
        )
        parser.add_argument(
            "--interval",
            type=interval(0.05),
            default=0.5,
            metavar="S",
            help="Seconds between two looks (default: 0.5).",
        )

    def run(self, console: Console, options: Options) -> None:
        """Look until it is over."""
        among = chosen_aliases(options)
        alias, record = first_that_knows(options["id"], among, lambda one: one.client.get(options["id"]))
        deadline = None if options["timeout"] is None else time.monotonic() + options["timeout"]
        drawn = ""
        while True:
            drawn = self._draw(console, record, drawn)
            if record.state.is_over:
                break
            if deadline is not None and time.monotonic() >= deadline:
                raise CommandError(
                    f"Still {record.state.value} after {duration(options['timeout'])}.", returncode=FAILED
                )
            self._sleep(options["interval"])
            known = alias.client.get(options["id"])
            if known is None:
                raise not_found(options["id"], [alias])
            record = known
        self._end(console, alias, record)

    @staticmethod
    def _draw(console: Console, record: JobRecord, drawn: str) -> str:
        text = visible(bar(veiled(record)))
        if console.as_json or text == drawn:
            return text
        if console.is_terminal:
            console.out.write(f"\r{text.ljust(len(drawn))}")
            console.out.flush()
        else:
            console.line(text)
        return text

    @staticmethod
    def _end(console: Console, alias: Alias, record: JobRecord) -> None:
        if console.as_json:
            console.json(job_report(alias.name, record))
        elif console.is_terminal:
            console.line()
        if record.state is not JobState.SUCCEEDED:
            record = veiled(record)
            failure = record.letter.failure.message if record.letter else ""
            raise CommandError(f"It ended as {record.state.value}. {shortened(failure, 200)}", returncode=FAILED)


def bar(record: JobRecord) -> str:
    """The state of a job in one line, with a bar when it tells how far it is."""
    progress = record.progress
    if record.state.is_over:
        return record.state.value
    if progress is None:
        return f"{record.state.value}, attempt {record.job.starts + 1}"
    message = f" {shortened(progress.message, 60)}" if progress.message else ""
    if not progress.total:
        return f"{record.state.value}: {progress.done:g} done{message}"
    part = min(1.0, max(0.0, progress.done / progress.total))
    filled = round(BAR * part)
    drawn = "#" * filled + "." * (BAR - filled)
    return f"{record.state.value} [{drawn}] {part:4.0%} {progress.done:g}/{progress.total:g}{message}"
