"""The dialect of one database system, as far as templates of statements need it. The base is what most agree on."""

from collections.abc import Mapping, Sized
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.timezone import get_default_timezone

from ..names import JOBS

MAX_EPOCH = 253402300799.0
"""The end of the year 9999."""


_WORDS = (
    *("key", "at", "wait_for_lock", "skip_locked", "ignore", "ignore_key", "or_value"),
    *("by_id", "by_line", "by_time", "delete_jobs"),
)


class Vendor:
    """Placeholders, conversions and clauses of one connection's database system. Runs nothing."""

    begin = "BEGIN"
    #: What the driver is to be told beside that statement.
    begin_options: Mapping[str, Any] = {}
    key = '"key"'
    wait_for_lock = ""
    skip_locked = ""
    ignore = "ON CONFLICT DO NOTHING"
    ignore_key = "ON CONFLICT DO NOTHING"
    #: What an INSERT does to a row of that key that is there already.
    or_value = 'ON CONFLICT ("key") DO UPDATE SET value = excluded.value'
    #: Whether that may have a condition.
    has_conditional_upsert = True
    #: Which index a statement that locks rows is to read, where the optimizer might prefer all rows.
    by_id = ""
    by_line = ""
    by_time = ""
    delete_jobs = f"DELETE FROM {JOBS}"
    at = "%s"
    #: Empty where the clock is the host's, which is read in Python.
    now = ""
    later = "%s"
    order = "%s"
    has_partial_unique = True
    has_unnest = False
    #: Whether PREPARE keeps a plan.
    prepares = False
    selects_without_table = True
    #: Whether an index answers for a column that only its condition speaks of.
    reads_partial_indexes_alone = True
    id_place = "%s"
    max_rows = 500

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.timezone = connection.timezone
        self.zone: tzinfo = connection.timezone or get_default_timezone()
        self.native_uuid: bool = connection.features.has_native_uuid_field
        self._cached_server_timed = lru_cache(256)(self._server_timed)
        self._cached_parameter_timed = lru_cache(256)(self._parameter_timed)

    # --- templates -----------------------------------------------------------------------------------------------

    def server_timed(self, template: str) -> str:
        """The statement of a template where the server knows the time."""
        return self._cached_server_timed(template)

    def parameter_timed(self, template: str) -> str:
        """The statement of a template where parameters say what time it is; `{now}` is left in it."""
        return self._cached_parameter_timed(template)

    def _server_timed(self, template: str) -> str:
        for name, text in (("now", self.now), ("base", self.now), ("later", self.later), ("order", self.order)):
            template = template.replace(f"{{{name}}}", text)
        return self._worded(template)

    def _parameter_timed(self, template: str) -> str:
        return self._worded(template.replace("{later}", self.at).replace("{order}", self.at))

    def _worded(self, template: str) -> str:
        for name in _WORDS:
            template = template.replace(f"{{{name}}}", getattr(self, name))
        return template

    # --- values --------------------------------------------------------------------------------------------------

    def id_column(self, column: str) -> str:
        """The expression that reads an id."""
        return column

    def id_in(self, job_id: str) -> str:
        """An id as a parameter."""
        return job_id if self.native_uuid else job_id.replace("-", "")

    def id_out(self, value: Any) -> str:
        """An id as it was read."""
        text = str(value)
        if "-" in text:
            return text
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def epoch_column(self, expression: str) -> str:
        """The expression that reads a moment."""
        return expression

    def epoch_out(self, value: Any) -> float | None:
        """A moment as it was read, in epoch seconds."""
        if value is None:
            return None
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return float((moment if moment.tzinfo else moment.replace(tzinfo=self.zone)).timestamp())

    def moment(self, epoch: float | None) -> Any:
        """A moment as a parameter of `{at}`."""
        if epoch is None:
            return None
        moment = datetime.fromtimestamp(min(max(epoch, 0.0), MAX_EPOCH), self.zone)
        return moment.replace(tzinfo=None).isoformat(" ", "microseconds")

    def literal(self, epoch: float) -> str:
        """A moment as a part of the statement."""
        return f"'{self.moment(epoch)}'"

    def places(self, values: Sized) -> str:
        """As many placeholders as there are values, in parentheses."""
        return f"({','.join(['%s'] * len(values))})"


def utc_offset(zone: tzinfo) -> float:
    """Seconds by which the zone is ahead of UTC now."""
    offset = datetime.now(UTC).astimezone(zone).utcoffset()
    return offset.total_seconds() if offset else 0.0
