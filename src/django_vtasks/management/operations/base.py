"""What the subcommands share: choosing an alias, printing for people or programs, and exit codes.

Exit codes: 0 done; 1 done in part, refused, or not confirmed; 2 wrong usage, an unknown alias or queue; 3 no such job;
4 the store did not answer or refused.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TextIO

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...jobs.errors import InvalidCursor, QueueError
from ...jobs.texts import visible
from ...operating.aliases import Alias, UnknownAlias, alias_named, aliases
from ...operating.explain import unknown
from ...operating.tables import table

FAILED, USAGE, NOT_FOUND, UNAVAILABLE = 1, 2, 3, 4

type Options = dict[str, Any]


class Console:
    """Where a subcommand prints: tables cut to the terminal's width, or one JSON document."""

    def __init__(self, out: Any, *, as_json: bool = False) -> None:
        self.out = out
        self.as_json = as_json

    @property
    def is_terminal(self) -> bool:
        """Whether somebody watches, so that lines may be redrawn."""
        return bool(getattr(self.out, "isatty", bool)())

    def line(self, text: str = "") -> None:
        """One line, or several."""
        self.out.write(f"{visible(text)}\n")

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """An aligned table."""
        width = shutil.get_terminal_size().columns if self.is_terminal else None
        self.line(table(headings, rows, width=width))

    def json(self, document: Any) -> None:
        """One JSON document."""
        self.line(json.dumps(document, indent=2, ensure_ascii=False))


class Operation:
    """One subcommand."""

    name: ClassVar[str]
    help: ClassVar[str]
    has_json: ClassVar[bool] = True
    all_aliases: ClassVar[bool] = False

    def add_arguments(self, parser: CommandParser) -> None:
        """Its own arguments."""

    def run(self, console: Console, options: Options) -> None:
        """Do it. Raises CommandError with an exit code of this module."""
        raise NotImplementedError

    def prepare(self, parser: Any) -> None:
        """All its arguments."""
        default = "all of them" if self.all_aliases else "default"
        parser.add_argument(
            "--backend-alias",
            "--alias",
            dest="alias",
            default=None,
            metavar="ALIAS",
            help=f"Alias in TASKS (default: {default}).",
        )
        if self.has_json:
            parser.add_argument("--json", action="store_true", help="Print JSON for programs.")
        self.add_arguments(parser)

    def execute(self, out: TextIO, options: Options) -> None:
        """Do it, with the errors of a store turned into messages and exit codes."""
        console = Console(out, as_json=bool(options.get("json")))
        with explained():
            self.run(console, options)


class OperationCommand(BaseCommand):
    """A management command that is one subcommand under a name of its own."""

    operation: ClassVar[Operation]
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Those of the subcommand."""
        self.operation.prepare(parser)

    def handle(self, **options: Any) -> None:
        """Run the subcommand."""
        self.operation.execute(self.stdout, options)  # type: ignore[arg-type]


@contextmanager
def explained() -> Iterator[None]:
    """Turn an unknown alias and a store that is away into a CommandError with its exit code, whose text is safe to
    be written to a terminal."""
    try:
        yield
    except CommandError as error:
        raise CommandError(visible(str(error)), returncode=error.returncode) from error
    except (UnknownAlias, InvalidCursor) as error:
        raise CommandError(visible(str(error)), returncode=USAGE) from error
    except QueueError as error:
        raise CommandError(f"The store did not do it: {visible(str(error))}", returncode=UNAVAILABLE) from error
    except BrokenPipeError:
        # The reader has seen enough (`| head`); the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def one_alias(options: Options) -> Alias:
    """The alias that was named, else `default`, else the only one."""
    named = options["alias"]
    if named is None:
        known = aliases()
        if len(known) == 1:
            return known[0]
    return alias_named(named or "default")


def chosen_aliases(options: Options) -> list[Alias]:
    """The alias that was named, else all."""
    return [alias_named(options["alias"])] if options["alias"] else aliases()


def first_that_knows[Known](
    job_id: str, among: Sequence[Alias], look: Callable[[Alias], Known | None]
) -> tuple[Alias, Known]:
    """The first alias in which `look` finds a job, and what it found. One whose store is away hides no other.

    Raises CommandError when none knows it, or the error of a store that could not be asked.
    """
    away: QueueError | None = None
    for alias in among:
        try:
            known = look(alias)
        except QueueError as error:
            away = error
            continue
        if known is not None:
            return alias, known
    if away is not None:
        raise away
    raise not_found(job_id, among)


def not_found(job_id: str, among: Sequence[Alias]) -> CommandError:
    """The error for an id that no store knows."""
    (reason,) = unknown(job_id)
    names = ", ".join(alias.name for alias in among) or "none"
    return CommandError(f"{reason.text} Asked: {names}. {reason.hint}", returncode=NOT_FOUND)


def confirmed(question: str, options: Options) -> bool:
    """Whether the operator typed `yes` or gave `--force`. Raises CommandError where neither can be."""
    if options["force"]:
        return True
    try:
        return input(f"{question} Type 'yes' to go on: ").strip() == "yes"
    except EOFError:
        raise CommandError(
            "Nobody is there to confirm it: give --force where no terminal is.", returncode=USAGE
        ) from None


def check_queue(alias: Alias, queue: str) -> None:
    """Raise CommandError for a queue that neither settings, jobs nor workers know."""
    store = alias.admin
    known = alias.configured_queues() | {count.queue for count in store.counts()}
    known |= {name for worker in store.workers() for name in worker.queues}
    if queue not in known:
        raise CommandError(
            f"No queue {queue!r} is known to {alias.name!r}; known are {', '.join(sorted(known))}. "
            "Use --force if it is to come.",
            returncode=USAGE,
        )
