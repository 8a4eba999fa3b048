"""The indexes of the job table, which differ per vendor: partial where the vendor has that, composite on MySQL.

A partial index for each state keeps every statement of a worker independent of how many rows are in other states.
They are made by SQL, since Django ignores conditions on MySQL and would make each of them a full index there.
"""

from typing import Any, override

from django.db import router
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

TABLE = "db_queuedtask"

#: What a worker of the 3.2 line claims by; it shares the table while a deployment rolls.
_OF_3_2 = "(queue, status, priority DESC, created_at)"
PARTIAL = {
    "db_queuedta_queue_562f8b_idx": f"{_OF_3_2} WHERE status = 'QUEUED'",
    "db_queuedtask_ready_idx": (
        "(queue, priority DESC, created_at, id) WHERE status = 'QUEUED' AND run_after IS NULL AND limit_group IS NULL"
    ),
    "db_queuedtask_parked_idx": "(limit_group, priority DESC, created_at, id) WHERE limit_group IS NOT NULL",
    "db_queuedtask_permit_idx": "(limit_key) WHERE limit_key IS NOT NULL",
    "db_queuedtask_scheduled_idx": "(run_after, id, queue) WHERE status = 'QUEUED' AND run_after IS NOT NULL",
    "db_queuedtask_leased_idx": "(worker_id) WHERE status = 'PROCESSING'",
    "db_queuedtask_cancel_idx": "(worker_id) WHERE cancel_requested_at IS NOT NULL",
    "db_queuedtask_dead_idx": "(buried_at, id) WHERE status = 'FAILED'",
}
FULL = {
    "db_queuedta_queue_562f8b_idx": _OF_3_2,
    "db_queuedtask_ready_idx": "(status, queue, run_after, limit_group, priority DESC, created_at, id)",
    "db_queuedtask_scheduled_idx": "(status, run_after, id, queue)",
    "db_queuedtask_leased_idx": "(worker_id, cancel_requested_at)",
    "db_queuedtask_dead_idx": "(buried_at, id)",
}


class MakeJobIndexes(Operation):
    """Make the vendor's indexes of the job table that do not exist yet.

    Django's state does not know them, so a later migration that makes SQLite rebuild the table ends with another one.
    """

    reduces_to_sql = True
    reversible = True

    @override
    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """The state knows nothing of them."""

    @override
    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Make what is missing."""
        if not _has_table(app_label, schema_editor):
            return
        for name, rest in _missing(schema_editor).items():
            schema_editor.execute(f"CREATE INDEX {name} ON {TABLE} {rest}", params=None)

    @override
    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Remove them."""
        if not _has_table(app_label, schema_editor):
            return
        table = f" ON {TABLE}" if schema_editor.connection.vendor == "mysql" else ""
        for name in _wanted(schema_editor):
            schema_editor.execute(f"DROP INDEX {name}{table}", params=None)

    def describe(self) -> str:
        """One line for the list of operations."""
        return "Make the indexes of the job table"


def _has_table(app_label: str, schema_editor: BaseDatabaseSchemaEditor) -> bool:
    return router.allow_migrate(schema_editor.connection.alias, app_label, model_name="queuedtask")  # type: ignore[no-any-return,unused-ignore]


def _wanted(schema_editor: BaseDatabaseSchemaEditor) -> dict[str, str]:
    return PARTIAL if schema_editor.connection.features.supports_partial_indexes else FULL


def _missing(schema_editor: BaseDatabaseSchemaEditor) -> dict[str, str]:
    wanted = _wanted(schema_editor)
    if schema_editor.collect_sql:
        return wanted
    connection: Any = schema_editor.connection
    with connection.cursor() as cursor:
        present = connection.introspection.get_constraints(cursor, TABLE)
    return {name: rest for name, rest in wanted.items() if name not in present}
