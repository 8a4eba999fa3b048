"""`manage.py vtasks_dlq`: the same as `manage.py vtasks dlq`."""

from ..operations.base import OperationCommand
from ..operations.letters import DeadLetters


class Command(OperationCommand):
    """See `DeadLetters`."""

    help = DeadLetters.help
    operation = DeadLetters()
