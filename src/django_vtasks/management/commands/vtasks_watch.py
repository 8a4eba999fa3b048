"""`manage.py vtasks_watch`: the same as `manage.py vtasks watch`."""

from ..operations.base import OperationCommand
from ..operations.watching import Watch


class Command(OperationCommand):
    """See `Watch`."""

    help = Watch.help
    operation = Watch()
