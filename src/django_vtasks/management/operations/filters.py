"""Arguments that say which jobs are meant."""

from typing import Any

from django.core.management.base import CommandError

from ...jobs.model import DeadReason, JobState
from ...operating import bulk
from ...operating.aliases import Alias
from ...stores.base import JobFilter
from ...tasks.redaction import searcher
from .base import FAILED, USAGE, Options, confirmed


def add_filters(parser: Any, *, letters: bool = False) -> None:
    """`--queue`, `--task`, `--text`, and for dead letters `--fingerprint` and `--reason`."""
    parser.add_argument("--queue", help="Only jobs of this queue.")
    parser.add_argument("--task", help="Only jobs of this task (dotted path).")
    parser.add_argument("--text", help="Only jobs with this text in their id, task or arguments.")
    if letters:
        parser.add_argument("--fingerprint", help="Only letters of this cause, see `dlq list --groups`.")
        parser.add_argument("--reason", choices=[reason.value for reason in DeadReason], help="Only these.")


def add_selection(parser: Any) -> None:
    """Ids, or `--all` of what the filters match, and `--force` against the question that this brings."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="Ids of jobs.")
    parser.add_argument("--all", action="store_true", help="Everything that the filters match.")
    parser.add_argument("--force", action="store_true", help="Do not ask.")


def filter_of(state: JobState, options: Options) -> JobFilter:
    """What the arguments say."""
    if not any(options.get(name) for name in ("queue", "task", "text", "fingerprint", "reason")):
        return JobFilter(state=state)
    return JobFilter(
        state=state,
        searchable=searcher(),
        queue=options.get("queue"),
        func=options.get("task"),
        text=options.get("text"),
        fingerprint=options.get("fingerprint"),
        reason=options.get("reason"),
    )


def selected(alias: Alias, state: JobState, options: Options, doing: str) -> bulk.Meant:
    """The ids that are meant; asks before an operation on all that match.

    Raises CommandError when neither ids nor filters were given, or the answer is not `yes`.
    """
    if options["ids"]:
        return bulk.Meant(ids=tuple(dict.fromkeys(options["ids"])))
    which = filter_of(state, options)
    if which == JobFilter(state=state) and not options["all"]:
        raise CommandError("Give ids, or a filter, or --all.", returncode=USAGE)
    meant = bulk.meant_by(alias.admin, which)
    if meant.ids and not confirmed(f"{doing} {len(meant.ids):,} jobs of {alias.name!r}?", options):
        raise CommandError("Nothing was done.", returncode=FAILED)
    return meant
