"""`schedule`: the command `vtasks_schedule` under the roof of `vtasks`."""

import argparse
from typing import Any

from django.core.management import call_command

from .base import Console, Operation, Options


class Schedule(Operation):
    """Schedule entries with their last and next runs."""

    name = "schedule"
    help = "Schedule entries with their last and next runs; takes the arguments of vtasks_schedule."
    has_json = False

    def prepare(self, parser: Any) -> None:
        """Whatever `vtasks_schedule` takes."""
        parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="Arguments of vtasks_schedule.")

    def run(self, console: Console, options: Options) -> None:
        """Hand over."""
        call_command("vtasks_schedule", *options["rest"], stdout=console.out)
