"""`schedule`: the command `vtasks_schedule` under the roof of `vtasks`."""

from typing import Any

from ..commands import vtasks_schedule
from .base import Console, Operation, Options


class Schedule(Operation):
    """Schedule entries with their last and next runs."""

    name = "schedule"
    help = vtasks_schedule.Command.help
    has_json = False

    def prepare(self, parser: Any) -> None:
        """Those of `vtasks_schedule`."""
        vtasks_schedule.Command().add_arguments(parser)

    def run(self, console: Console, options: Options) -> None:
        """Hand over."""
        vtasks_schedule.Command(stdout=console.out).handle(**options)
