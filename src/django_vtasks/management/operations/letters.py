"""`dlq`: list, show, retry, edit, discard, export and import dead letters."""

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import CommandError

from ...jobs.model import Job, JobRecord, JobState
from ...operating import bulk, transfer
from ...operating.aliases import Alias
from ...operating.calls import call_problem
from ...operating.reports import NOTHING_HIDDEN, group_report, job_report
from ...operating.wording import counted, moment, short_class, shortened
from ...stores.base import Redrive
from ...tasks.redaction import HIDDEN, filled_in, veiled_group
from ..numbers import whole
from .base import FAILED, USAGE, Console, Operation, Options, not_found, one_alias
from .filters import add_filters, add_selection, filter_of, selected
from .looking import draw_jobs


class DeadLetters(Operation):
    """The group of subcommands."""

    name = "dlq"
    help = "Dead letters: list, show, retry, edit, discard, export, import."

    def prepare(self, parser: Any) -> None:
        """One parser for each of them."""
        actions = parser.add_subparsers(dest="dlq", required=True, metavar="ACTION")
        for action in ACTIONS:
            action.prepare(actions.add_parser(action.name, help=action.help, description=action.help))

    def run(self, console: Console, options: Options) -> None:
        """The one that was chosen."""
        next(action for action in ACTIONS if action.name == options["dlq"]).run(console, options)


class List(Operation):
    """Letters, or their groups."""

    name = "list"
    help = "Dead letters, newest first; with --groups by cause."

    def add_arguments(self, parser: Any) -> None:
        """Which letters."""
        add_filters(parser, letters=True)
        parser.add_argument("--groups", action="store_true", help="Group what failed alike, the largest first.")
        parser.add_argument("--limit", type=whole(1), default=50, metavar="N", help="How many (default: 50).")
        parser.add_argument("--after", help="What the page before said to continue with.")

    def run(self, console: Console, options: Options) -> None:
        """Print them."""
        alias = one_alias(options)
        if options["groups"]:
            _draw_groups(console, alias, options["limit"])
            return
        page = alias.admin.page(filter_of(JobState.DEAD, options), after=options["after"], limit=options["limit"])
        if console.as_json:
            letters = [job_report(alias.name, record) for record in page.records]
            console.json({"letters": letters, "next": page.next_cursor})
            return
        draw_jobs(console, page.records)
        if page.next_cursor:
            console.line(f"more: --after {page.next_cursor}")


def _draw_groups(console: Console, alias: Alias, limit: int) -> None:
    groups = list(map(veiled_group, alias.admin.letter_groups(limit=limit)))
    if console.as_json:
        console.json([group_report(group) for group in groups])
        return
    console.table(
        ("LETTERS", "TASK", "ERROR", "LAST", "FINGERPRINT"),
        [
            (
                group.count,
                group.func or "(undecodable)",
                shortened(f"{short_class(group.exception_class)}: {group.message}", 60),
                moment(group.last_failed_at),
                group.fingerprint,
            )
            for group in groups
        ],
    )


class Show(Operation):
    """One letter in full."""

    name = "show"
    help = "One dead letter with its arguments, attempts and traceback."

    def add_arguments(self, parser: Any) -> None:
        """Which one."""
        parser.add_argument("id", metavar="ID", help="Id of the job.")
        parser.add_argument("--reveal", action="store_true", help="Show redacted values too.")

    def run(self, console: Console, options: Options) -> None:
        """Print it."""
        alias = one_alias(options)
        record = letter_of(alias, options["id"])
        report = job_report(alias.name, record, NOTHING_HIDDEN if options["reveal"] else None)
        if record.letter and record.letter.job is None:
            report["bytes"] = record.letter.raw.decode("utf-8", "backslashreplace")
        if console.as_json:
            console.json(report)
            return
        letter = report.pop("letter")
        for name, value in {**report, **letter}.items():
            if name not in {"attempts", "traceback", "state"} and value not in (None, {}, []):
                console.line(f"{name}: {value if isinstance(value, str) else orjson.dumps(value).decode()}")
        for attempt in report["attempts"]:
            console.line(
                f"attempt {attempt['number']}: {attempt['outcome']} on {attempt['worker']}, {attempt['ended']}"
            )
        console.line(letter["traceback"].rstrip())


class Retry(Operation):
    """Letters become jobs again."""

    name = "retry"
    help = "Enqueue dead letters again, as new jobs that know the old ones."

    def add_arguments(self, parser: Any) -> None:
        """Which, and how fast."""
        add_selection(parser)
        add_filters(parser, letters=True)
        parser.add_argument("--rate", type=float, help="Jobs per second (default: all at once).")
        parser.add_argument("--to-queue", help="Enqueue them in this queue instead of their own.")

    def run(self, console: Console, options: Options) -> None:
        """Do it."""
        alias, rate = one_alias(options), options["rate"]
        if rate is not None and not 0.001 <= rate <= 1_000_000:
            raise CommandError("--rate must be between 0.001 and 1,000,000 jobs a second.", returncode=USAGE)
        meant = selected(alias, JobState.DEAD, options, "Retry")
        done = bulk.redrive(alias.admin, meant.ids, Redrive(queue=options["to_queue"]), rate=rate)
        _tell(console, done, "retried", "gone, undecodable or with a unique key that is taken")


class Edit(Operation):
    """One letter becomes a job with other arguments."""

    name = "edit"
    help = (
        "Enqueue one dead letter again with other arguments. --args replaces all positional ones, --kwargs all "
        "named ones; "
        f'"{HIDDEN}" stands for the value that is there.'
    )

    def add_arguments(self, parser: Any) -> None:
        """The letter, and what is new."""
        parser.add_argument("id", metavar="ID", help="Id of the job.")
        parser.add_argument("--args", dest="new_args", help="Positional arguments as a JSON list.")
        parser.add_argument("--kwargs", dest="new_kwargs", help="Named arguments as a JSON object.")
        parser.add_argument("--to-queue", help="Another queue.")

    def run(self, console: Console, options: Options) -> None:
        """Do it."""
        alias = one_alias(options)
        record = letter_of(alias, options["id"])
        changes = Redrive(
            args=_parsed(options, "args", record.job.args),
            kwargs=_parsed(options, "kwargs", record.job.kwargs),
            queue=options["to_queue"],
        )
        if changes == Redrive():
            raise CommandError("Give --args, --kwargs or --to-queue; to change nothing, use retry.", returncode=USAGE)
        _check_call(record.job, changes)
        done = bulk.redrive(alias.admin, [record.job.id], changes)
        _tell(console, done, "retried", "its bytes are no job, or its unique key is taken")


def _check_call(job: Job, changes: Redrive) -> None:
    args = job.args if changes.args is None else changes.args
    kwargs = job.kwargs if changes.kwargs is None else changes.kwargs
    problem = call_problem(job.func, args, kwargs)
    if problem:
        message = f"The task cannot be called like this: {problem}. Without --args or --kwargs those of before stay"
        raise CommandError(f"{message}; --args '[]' removes the positional ones.", returncode=USAGE)


def _parsed(options: Options, name: str, original: Any) -> Any:
    text, kind = options[f"new_{name}"], list if name == "args" else dict
    if text is None:
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CommandError(f"--{name} is not JSON: {error}", returncode=USAGE) from error
    if not isinstance(value, kind):
        raise CommandError(f"--{name} must be a JSON {'list' if kind is list else 'object'}.", returncode=USAGE)
    try:
        return filled_in(value, original)
    except ValueError as error:
        raise CommandError(f"--{name}: {error}", returncode=USAGE) from error


class Discard(Operation):
    """Letters are removed."""

    name = "discard"
    help = "Remove dead letters for good."

    def add_arguments(self, parser: Any) -> None:
        """Which."""
        add_selection(parser)
        add_filters(parser, letters=True)

    def run(self, console: Console, options: Options) -> None:
        """Do it."""
        alias = one_alias(options)
        meant = selected(alias, JobState.DEAD, options, "Discard")
        _tell(console, bulk.discard(alias.admin, JobState.DEAD, meant.ids), "discarded", "not there")


def _tell(console: Console, done: bulk.Done, past: str, why: str) -> None:
    if console.as_json:
        console.json({past: done.changed, "left_alone": done.left_alone, "new_ids": list(done.new_ids)})
    else:
        console.line(f"{past} {counted(done.changed, 'dead letter')}")
        for new_id in done.new_ids if len(done.new_ids) <= 10 else ():
            console.line(f"new job: {new_id}")
    if done.left_alone:
        text = f"{counted(done.left_alone, 'dead letter was', 'dead letters were')} left alone: {why}."
        raise CommandError(text, returncode=FAILED)


class Export(Operation):
    """Letters into a file."""

    name = "export"
    help = "Write dead letters to a file, one JSON object a line, complete and not redacted."
    has_json = False

    def add_arguments(self, parser: Any) -> None:
        """Which, and where to."""
        parser.add_argument("file", metavar="FILE", help="Path, or - for standard output.")
        add_filters(parser, letters=True)

    def run(self, console: Console, options: Options) -> None:
        """Do it."""
        alias = one_alias(options)
        lines = transfer.lines(alias.admin, filter_of(JobState.DEAD, options))
        if options["file"] == "-":
            for line in lines:
                console.out.write(line.decode())
            return
        console.line(f"exported {counted(_written(options['file'], lines), 'dead letter')} to {options['file']}")


def _written(name: str, lines: Iterable[bytes]) -> int:
    try:
        with Path(name).open("wb") as file:
            return sum(1 for line in lines if file.write(line))
    except OSError as error:
        raise CommandError(f"{name} cannot be written: {error}", returncode=USAGE) from error


class Import(Operation):
    """Letters out of a file."""

    name = "import"
    help = "Put exported dead letters back; those whose id is known are left alone."

    def add_arguments(self, parser: Any) -> None:
        """Where from."""
        parser.add_argument("file", metavar="FILE", help="Path, or - for standard input.")

    def run(self, console: Console, options: Options) -> None:
        """Check the whole file first, so that a broken one changes nothing, then put the letters in."""
        alias = one_alias(options)
        if options["file"] == "-":
            lines = sys.stdin.buffer.readlines()
            self._restore(console, alias, lines, lines)
            return
        try:
            with ExitStack() as files:
                first, second = (files.enter_context(Path(options["file"]).open("rb")) for _ in range(2))
                self._restore(console, alias, first, second)
        except OSError as error:
            raise CommandError(f"{options['file']} cannot be read: {error}", returncode=USAGE) from error

    @staticmethod
    def _restore(console: Console, alias: Alias, to_check: Iterable[bytes], to_read: Iterable[bytes]) -> None:
        try:
            for _ in transfer.read(to_check):
                pass
        except ValueError as error:
            raise CommandError(f"Nothing was imported: {error}", returncode=USAGE) from error
        restored, known = transfer.restore(alias.admin, transfer.read(to_read))
        if console.as_json:
            console.json({"imported": restored, "known": known})
        else:
            console.line(f"imported {counted(restored, 'dead letter')}; {known:,} known already")


def letter_of(alias: Alias, job_id: str) -> JobRecord:
    """The record of a dead letter. Raises CommandError when there is none with this id."""
    record = alias.client.get(job_id)
    if record is None:
        raise not_found(job_id, [alias])
    if record.letter is None:
        raise CommandError(f"The job {job_id!r} is no dead letter but {record.state.value}.", returncode=FAILED)
    return record


ACTIONS: tuple[Operation, ...] = (List(), Show(), Retry(), Edit(), Discard(), Export(), Import())
