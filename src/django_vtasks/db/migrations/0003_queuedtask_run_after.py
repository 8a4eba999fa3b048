"""Delayed jobs, as the 3.2 line added them. A database of that line stands here."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("db", "0002_remove_queuedtask_db_queuedta_queue_2cd03b_idx_and_more")]

    operations = [
        migrations.AddField(
            model_name="queuedtask",
            name="run_after",
            field=models.DateTimeField(blank=True, db_index=True, null=True),
        ),
    ]
