"""`manage.py clear_queue`: the same as `manage.py vtasks clear_queue`."""

from ..operations.acting import ClearQueue
from ..operations.base import OperationCommand


class Command(OperationCommand):
    """See `ClearQueue`."""

    help = ClearQueue.help
    operation = ClearQueue()
