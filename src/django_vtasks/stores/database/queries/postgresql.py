"""PostgreSQL: moments travel as epoch seconds, whatever the session's time zone."""

from typing import Any

from django.db.backends.postgresql.psycopg_any import is_psycopg3

from .vendor import MAX_EPOCH, Vendor

STANDSTILL = 5.0
"""Seconds after which the server ends a transaction in which nothing happens."""


def begin(standstill: float) -> str:
    """How a transaction starts whose locks outlive its process by so many seconds at most, in one round trip.

    A process that is frozen or cut off in the midst of one would keep everybody else waiting for what it has locked.
    """
    return f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = {standstill * 1000:.0f}"


class PostgreSQL(Vendor):
    """The dialect of PostgreSQL."""

    begin = begin(STANDSTILL)
    # Two statements cannot be prepared.
    begin_options = {"prepare": False} if is_psycopg3 else {}
    wait_for_lock = "FOR UPDATE"
    skip_locked = "FOR UPDATE SKIP LOCKED"
    at = "to_timestamp(%s)"
    now = "statement_timestamp()"
    later = "(statement_timestamp() + make_interval(secs => %s))"
    order = "(statement_timestamp() + %s * interval '1 microsecond')"
    has_unnest = True
    prepares = is_psycopg3
    id_place = "%s::uuid"
    max_rows = 1000

    def id_column(self, column: str) -> str:
        """See `Vendor`."""
        # Not `id::text`, which would be named id too: ORDER BY id would mean the text, which no index has in order.
        return f"text({column})"

    def id_in(self, job_id: str) -> str:
        """See `Vendor`."""
        return job_id

    def id_out(self, value: Any) -> str:
        """See `Vendor`."""
        return value  # type: ignore[no-any-return]

    def epoch_column(self, expression: str) -> str:
        """See `Vendor`."""
        return f"EXTRACT(EPOCH FROM {expression})::float8"

    def epoch_out(self, value: Any) -> float | None:
        """See `Vendor`."""
        return value  # type: ignore[no-any-return]

    def moment(self, epoch: float | None) -> float | None:
        """See `Vendor`."""
        return None if epoch is None else min(max(epoch, 0.0), MAX_EPOCH)

    def literal(self, epoch: float) -> str:
        """See `Vendor`."""
        return f"to_timestamp({epoch!r})"
