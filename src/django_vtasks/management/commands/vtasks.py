"""`manage.py vtasks`: see and operate the queues from the command line."""

from argparse import RawDescriptionHelpFormatter
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from ..operations import acting, base, bench, doctor, letters, looking, schedule, watching

OPERATIONS: tuple[base.Operation, ...] = (
    looking.Status(),
    looking.Workers(),
    looking.Jobs(),
    looking.Explain(),
    acting.Pause(),
    acting.Resume(),
    acting.Cancel(),
    letters.DeadLetters(),
    schedule.Schedule(),
    acting.Purge(),
    acting.ClearQueue(),
    acting.Rollback(),
    doctor.Doctor(),
    bench.Bench(),
    watching.Watch(),
)


class Command(BaseCommand):
    """One command with a subcommand for each thing an operator does."""

    help = "See and operate task queues."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """One parser for each subcommand."""
        parser.formatter_class = RawDescriptionHelpFormatter
        parser.epilog = base.__doc__ and base.__doc__.partition("\n\n")[2]
        subparsers = parser.add_subparsers(dest="operation", required=True, metavar="SUBCOMMAND")
        for operation in OPERATIONS:
            operation.prepare(subparsers.add_parser(operation.name, help=operation.help, description=operation.help))

    def handle(self, **options: Any) -> None:
        """Run the one that was chosen."""
        chosen = next(operation for operation in OPERATIONS if operation.name == options["operation"])
        chosen.execute(self.stdout, options)  # type: ignore[arg-type]
