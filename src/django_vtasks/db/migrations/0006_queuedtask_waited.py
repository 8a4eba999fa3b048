from django.db import migrations, models


class Migration(migrations.Migration):
    """A column that says whether somebody waits for the end of a job."""

    dependencies = [
        ("db", "0005_schedule_entry"),
    ]

    operations = [
        migrations.AddField(
            model_name="queuedtask",
            name="waited",
            field=models.BooleanField(editable=False, null=True),
        ),
    ]
