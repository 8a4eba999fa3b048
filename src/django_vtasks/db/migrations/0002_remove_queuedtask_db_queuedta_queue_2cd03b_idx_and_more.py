"""Priorities, as the 3.2 line added them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("db", "0001_initial")]

    operations = [
        migrations.RemoveIndex(model_name="queuedtask", name="db_queuedta_queue_2cd03b_idx"),
        migrations.AddField(
            model_name="queuedtask", name="priority", field=models.IntegerField(db_index=True, default=0)
        ),
        migrations.AddIndex(
            model_name="queuedtask",
            index=models.Index(
                fields=["queue", "status", "-priority", "created_at"], name="db_queuedta_queue_562f8b_idx"
            ),
        ),
    ]
