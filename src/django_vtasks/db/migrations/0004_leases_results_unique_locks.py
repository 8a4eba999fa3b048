"""From the tables of the 3.2 line to leases, results and unique locks. Workers of both lines run on what this makes.

The indexes on single columns go, and those over all states shrink to the state they are for: every index costs at
every change of a job's state.
"""

from typing import Any

from django.db import migrations, models
from django.db.migrations.operations import AddField, AlterField

from django_vtasks.db.indexes import MakeJobIndexes


def _added(name: str, field: "models.Field[Any, Any]") -> AddField:
    return AddField(model_name="queuedtask", name=name, field=field)


def _moment(name: str) -> AddField:
    return _added(name, models.DateTimeField(editable=False, null=True))


def _text(name: str, max_length: int) -> AddField:
    return _added(name, models.CharField(editable=False, max_length=max_length, null=True))


def _unindexed(name: str, field: "models.Field[Any, Any]") -> AlterField:
    return AlterField(model_name="queuedtask", name=name, field=field)


class Migration(migrations.Migration):
    dependencies = [("db", "0003_queuedtask_run_after")]

    operations = [
        migrations.AlterModelOptions(name="queuedtask", options={"verbose_name": "queued task"}),
        migrations.RemoveConstraint(model_name="queuedtask", name="unique_queued_or_processing_task"),
        migrations.RemoveIndex(model_name="queuedtask", name="db_queuedta_queue_562f8b_idx"),
        _unindexed("queue", models.CharField(max_length=255)),
        _unindexed("priority", models.IntegerField(default=0)),
        _unindexed("run_after", models.DateTimeField(blank=True, null=True)),
        _unindexed(
            "status",
            models.CharField(
                choices=[("QUEUED", "Queued"), ("PROCESSING", "Processing"), ("FAILED", "Failed")],
                default="QUEUED",
                max_length=20,
            ),
        ),
        _text("lease_token", 32),
        _moment("claimed_at"),
        _moment("cancel_requested_at"),
        _added("progress", models.TextField(editable=False, null=True)),
        _moment("progress_at"),
        _added("metadata", models.TextField(editable=False, null=True)),
        _moment("buried_at"),
        _moment("failed_at"),
        _moment("first_failed_at"),
        _text("func", 255),
        _text("reason", 32),
        _text("fingerprint", 255),
        _moment("result_until"),
        _text("limit_group", 64),
        _text("limit_key", 64),
        # Without the rows that have no key, which are nearly all, the index costs an ordinary job nothing.
        migrations.AddConstraint(
            model_name="queuedtask",
            constraint=models.UniqueConstraint(
                fields=("queue", "unique_key"),
                condition=models.Q(status__in=["QUEUED", "PROCESSING"], unique_key__isnull=False),
                name="unique_queued_or_processing_task",
            ),
        ),
        MakeJobIndexes(),
        migrations.CreateModel(
            name="JobResult",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("queue", models.CharField(max_length=255)),
                ("state", models.CharField(max_length=20)),
                ("data", models.BinaryField()),
                ("ending", models.TextField(null=True)),
                ("value", models.BinaryField(null=True)),
                ("progress", models.TextField(null=True)),
                ("progress_at", models.DateTimeField(null=True)),
                ("settled_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "verbose_name": "job result",
                "indexes": [
                    models.Index(fields=["settled_at", "id"], name="db_jobresult_settled_idx"),
                    models.Index(fields=["expires_at"], name="db_jobresult_expires_idx"),
                ],
            },
        ),
        migrations.CreateModel(
            name="UniqueLock",
            fields=[
                ("id", models.CharField(editable=False, max_length=64, primary_key=True, serialize=False)),
                ("job_id", models.UUIDField()),
                ("until_claimed", models.BooleanField()),
                ("expires_at", models.DateTimeField(db_index=True, null=True)),
            ],
            options={"verbose_name": "unique lock"},
        ),
        migrations.CreateModel(
            name="LimitKey",
            fields=[
                ("id", models.CharField(editable=False, max_length=64, primary_key=True, serialize=False)),
                ("arrival", models.FloatField(null=True)),
            ],
            options={"verbose_name": "limit key"},
        ),
        migrations.CreateModel(
            name="LimitGroup",
            fields=[
                ("id", models.CharField(editable=False, max_length=64, primary_key=True, serialize=False)),
                ("queue", models.CharField(max_length=255)),
                ("limit_key", models.CharField(db_index=True, max_length=64, null=True)),
                ("look_at", models.DateTimeField(db_index=True)),
            ],
            options={"verbose_name": "limit group"},
        ),
    ]
