"""MySQL and MariaDB: no partial indexes, and rows that were changed are not returned."""

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper

from ..names import JOBS
from .vendor import Vendor, utc_offset


class MySQL(Vendor):
    """The dialect of MySQL and MariaDB."""

    key = "`key`"
    wait_for_lock = "FOR UPDATE"
    ignore = "ON DUPLICATE KEY UPDATE id = id"
    # In a small table the optimizer reads every row for a list of ids, and waits for those that other workers lock.
    by_id = "FORCE INDEX (PRIMARY)"
    by_line = "FORCE INDEX (db_queuedtask_ready_idx)"
    by_time = "FORCE INDEX (db_queuedtask_scheduled_idx)"
    delete_jobs = f"DELETE {JOBS} FROM {JOBS} FORCE INDEX (PRIMARY)"
    ignore_key = "ON DUPLICATE KEY UPDATE `key` = `key`"
    or_value = "ON DUPLICATE KEY UPDATE value = VALUES(value)"
    has_conditional_upsert = False
    has_partial_unique = False
    selects_without_table = False

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        super().__init__(connection)
        skips = connection.features.has_select_for_update_skip_locked
        self.skip_locked = "FOR UPDATE SKIP LOCKED" if skips else "FOR UPDATE"
        self._set_clock("UTC_TIMESTAMP(6)")

    def server_timed(self, template: str) -> str:
        """See `Vendor`; without USE_TZ the columns hold local time, whose distance from UTC changes."""
        if not settings.USE_TZ:
            self._set_clock(f"(UTC_TIMESTAMP(6) + INTERVAL {utc_offset(self.zone)} SECOND)")
            return self._server_timed(template)
        return super().server_timed(template)

    def literal(self, epoch: float) -> str:
        """See `Vendor`."""
        return f"TIMESTAMP'{self.moment(epoch)}'"

    def _set_clock(self, now: str) -> None:
        self.now = now
        self.later = f"({now} + INTERVAL %s SECOND)"
        self.order = f"({now} + INTERVAL %s MICROSECOND)"
