"""The tables as the 3.2 line made them."""

import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="VTaskMetadata",
            fields=[
                ("key", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("value", models.TextField()),
                ("expires_at", models.DateTimeField(blank=True, db_index=True, null=True)),
            ],
            options={"verbose_name_plural": "VTask Metadata"},
        ),
        migrations.CreateModel(
            name="QueuedTask",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("queue", models.CharField(db_index=True, max_length=255)),
                ("unique_key", models.CharField(blank=True, max_length=255, null=True)),
                ("data", models.BinaryField()),
                (
                    "status",
                    models.CharField(
                        choices=[("QUEUED", "Queued"), ("PROCESSING", "Processing"), ("FAILED", "Failed")],
                        db_index=True,
                        default="QUEUED",
                        max_length=20,
                    ),
                ),
                ("worker_id", models.CharField(blank=True, max_length=255, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["queue", "status", "created_at"], name="db_queuedta_queue_2cd03b_idx")
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("queue", "unique_key"),
                        condition=models.Q(status__in=["QUEUED", "PROCESSING"]),
                        name="unique_queued_or_processing_task",
                    )
                ],
            },
        ),
    ]
