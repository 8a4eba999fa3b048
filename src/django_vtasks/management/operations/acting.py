"""Subcommands that change something: pause, resume, cancel, clear_queue, purge."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError

from ...conf import WorkerConfig
from ...jobs.model import JobState
from ...operating import bulk
from ...operating.aliases import Alias, alias_named
from ...stores.base import CancelStatus, JobFilter, Purged
from .base import FAILED, NOT_FOUND, USAGE, Console, Operation, Options, check_queue, confirmed, one_alias
from .filters import add_filters, add_selection, selected


class Pause(Operation):
    """Stop claiming from queues."""

    name = "pause"
    help = "No worker claims from the queues until they are resumed."
    past = "paused"

    def add_arguments(self, parser: Any) -> None:
        """Which queues."""
        parser.add_argument("queues", nargs="+", metavar="QUEUE", help="Names of queues.")
        parser.add_argument("--force", action="store_true", help="Even a queue that is not known yet.")

    def run(self, console: Console, options: Options) -> None:
        """Do it, all or none of them."""
        alias = one_alias(options)
        for queue in () if options["force"] else options["queues"]:
            check_queue(alias, queue)
        for queue in options["queues"]:
            self.change(alias, queue)
        if console.as_json:
            console.json({"alias": alias.name, "queues": options["queues"], "state": self.past})
        else:
            console.line(f"{alias.name}: {self.past} {', '.join(options['queues'])}")

    def change(self, alias: Alias, queue: str) -> None:
        """One queue."""
        alias.admin.pause(queue)


class Resume(Pause):
    """Claim from queues again."""

    name = "resume"
    help = "Workers claim from the queues again."
    past = "resumed"

    def change(self, alias: Alias, queue: str) -> None:
        """One queue."""
        alias.admin.resume(queue)


class Rollback(Operation):
    """Make ready for workers of the 3.2 line."""

    name = "rollback"
    help = "Move waiting jobs to where a worker of the 3.2 line finds them. Stop the workers of this version first."

    def add_arguments(self, parser: Any) -> None:
        """None of its own."""

    def run(self, console: Console, options: Options) -> None:
        """Do it and tell how many were moved."""
        alias = one_alias(options)
        moved = alias.admin.level_priorities()
        if console.as_json:
            console.json({"alias": alias.name, "moved": moved})
        else:
            console.line(f"{alias.name}: moved {moved:,} waiting jobs to where 3.2 finds them")


class Cancel(Operation):
    """Cancel jobs."""

    name = "cancel"
    help = "Cancel jobs: a waiting one never starts, a running one is told within a second."

    def add_arguments(self, parser: Any) -> None:
        """Which jobs."""
        add_selection(parser)
        add_filters(parser)
        choices = [JobState.READY.value, JobState.SCHEDULED.value, JobState.LEASED.value]
        parser.add_argument("--state", choices=choices, default=JobState.READY.value, help="For filters (ready).")

    def run(self, console: Console, options: Options) -> None:
        """Do it and tell how often each answer was given."""
        alias = one_alias(options)
        meant = selected(alias, JobState(options["state"]), options, "Cancel")
        answers = bulk.cancel(alias.client, meant.ids)
        if console.as_json:
            console.json({status.value: answers[status] for status in CancelStatus})
        else:
            told = [f"{number:,} {_ANSWERS[status]}" for status, number in answers.items()]
            console.line(", ".join(told) or "no job matches")
        _judge_cancel(answers)


_ANSWERS = {
    CancelStatus.CANCELLED: "cancelled",
    CancelStatus.REQUESTED: "running and told to stop",
    CancelStatus.FINISHED: "over already",
    CancelStatus.UNKNOWN: "unknown",
}


def _judge_cancel(answers: Counter[CancelStatus]) -> None:
    if answers[CancelStatus.UNKNOWN]:
        raise CommandError("Nothing is known of some of these jobs.", returncode=NOT_FOUND)
    if answers[CancelStatus.FINISHED]:
        raise CommandError("Some of these jobs were over already.", returncode=FAILED)


class ClearQueue(Operation):
    """Remove waiting jobs or dead letters: the command of the 3.2 line, the same on every backend."""

    name = "clear_queue"
    help = "Remove the waiting jobs of a queue, delayed ones included, or with --failed dead letters."
    has_json = False

    def add_arguments(self, parser: Any) -> None:
        """Which of them."""
        parser.add_argument("--queue", default=None, help="Queue to clear (default: default).")
        parser.add_argument("--all-queues", action="store_true", help="Every queue.")
        parser.add_argument("--failed", action="store_true", help="Dead letters instead of waiting jobs.")
        parser.add_argument("--force", action="store_true", help="Do not ask.")

    def execute(self, out: Any, options: Options) -> None:
        """As ever, but an unknown alias raises the framework's own error."""
        alias_named(options["alias"] or "default")
        super().execute(out, options)

    def run(self, console: Console, options: Options) -> None:
        """Count, ask, remove. Running jobs stay; cancel them."""
        alias = alias_named(options["alias"] or "default")
        queue = options["queue"] if options["failed"] else options["queue"] or "default"
        queue = None if options["all_queues"] else queue
        what = "dead letters" if options["failed"] else "waiting jobs"
        where = f"the queue {queue!r}" if queue else "all queues"
        number = _number(alias, queue, options)
        if not number:
            console.line(f"{where[0].upper()}{where[1:]} of {alias.name!r}: already empty.")
            return
        if not confirmed(f"Remove {number:,} {what} of {where} of {alias.name!r}?", options):
            console.line("Nothing was removed.")
            return
        states = (JobState.DEAD,) if options["failed"] else (JobState.READY, JobState.SCHEDULED)
        which = (JobFilter(state=state, queue=queue) for state in states)
        removed = sum(bulk.delete_all(alias.admin, one, 2 * number + bulk.CHUNK) for one in which)
        console.line(f"Removed {removed:,} {what} of {where} of {alias.name!r}.")


def _number(alias: Alias, queue: str | None, options: Options) -> int:
    counts = [count for count in alias.admin.counts() if queue in (None, count.queue)]
    return sum(count.dead if options["failed"] else count.ready + count.scheduled for count in counts)


class Purge(Operation):
    """Remove what is past its time."""

    name = "purge"
    help = "Remove results past their time, dead letters beyond the cap, traces of dead workers; or by age."

    def add_arguments(self, parser: Any) -> None:
        """What, and how old."""
        hint = "Remove {} that ended more than SECONDS ago (0 = all), instead."
        parser.add_argument("--results", type=float, metavar="SECONDS", help=hint.format("results"))
        parser.add_argument("--letters", type=float, metavar="SECONDS", help=hint.format("dead letters"))
        parser.add_argument("--queue", action="append", dest="queues", metavar="QUEUE", help="Only these queues.")
        parser.add_argument("--dry-run", action="store_true", help="With an age: only count.")

    def run(self, console: Console, options: Options) -> None:
        """Do it, in bounded batches."""
        alias = one_alias(options)
        ages = {"results": options["results"], "letters": options["letters"]}
        if any(age is not None and not age >= 0 for age in ages.values()):
            raise CommandError("An age must be zero or more seconds.", returncode=USAGE)
        if all(age is None for age in ages.values()):
            if options["dry_run"] or options["queues"]:
                raise CommandError("--dry-run and --queue need --results or --letters.", returncode=USAGE)
            done = asyncio.run(purge_expired(alias))
            removed = {"results": done.results, "letters": done.dead_letters, "workers": done.workers}
        else:
            removed = {name: _purge_aged(alias, name, age, options) for name, age in ages.items() if age is not None}
        if console.as_json:
            console.json(removed)
        else:
            verb = "would remove" if options["dry_run"] else "removed"
            console.line(f"{alias.name}: {verb} {', '.join(f'{count:,} {name}' for name, count in removed.items())}")


async def purge_expired(alias: Alias) -> Purged:
    """What a worker removes by and by, all of it now."""
    store = alias.backend.new_worker_store()
    retention = WorkerConfig.from_settings(alias.name).retention
    await store.open()
    try:
        total = Purged()
        while True:
            done = await store.purge(retention, bulk.CHUNK)
            total = Purged(
                results=total.results + done.results,
                dead_letters=total.dead_letters + done.dead_letters,
                workers=total.workers + done.workers,
            )
            if max(done.results, done.dead_letters, done.workers) < bulk.CHUNK:
                return total
    finally:
        await store.close()


_STATES = {"results": (JobState.SUCCEEDED, JobState.DISCARDED), "letters": (JobState.DEAD,)}


def _purge_aged(alias: Alias, what: str, age: float, options: Options) -> int:
    before = time.time() - age
    total = 0
    for state in _STATES[what]:
        for ids in _aged(alias, state, before, options["queues"]):
            total += len(ids) if options["dry_run"] else bulk.discard(alias.admin, state, ids).changed
    return total


def _aged(alias: Alias, state: JobState, before: float, queues: list[str] | None) -> Iterator[list[str]]:
    names: list[str | None] = [*queues] if queues else [None]
    for queue in names:
        which = JobFilter(state=state, queue=queue)
        cursor, old = None, list[str]()
        while True:
            page = alias.admin.page(which, after=cursor, limit=bulk.CHUNK)
            old += [record.job.id for record in page.records if (record.finished_at or 0.0) <= before]
            cursor = page.next_cursor
            if cursor is None:
                break
        yield from (old[start : start + bulk.CHUNK] for start in range(0, len(old), bulk.CHUNK))
