import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    """The table of schedule entries that can be edited at run time."""

    dependencies = [
        ("db", "0004_leases_results_unique_locks"),
    ]

    operations = [
        migrations.CreateModel(
            name="ScheduleEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("task", models.CharField(max_length=255)),
                ("schedule", models.CharField(max_length=255)),
                ("timezone", models.CharField(blank=True, max_length=64)),
                ("args", models.JSONField(blank=True, default=list)),
                ("kwargs", models.JSONField(blank=True, default=dict)),
                ("queue", models.CharField(blank=True, max_length=255)),
                ("priority", models.SmallIntegerField(blank=True, null=True)),
                ("jitter", models.FloatField(default=0.0)),
                ("catch_up", models.CharField(default="latest", max_length=8)),
                ("overlap", models.CharField(default="allow", max_length=8)),
                ("run_on_start", models.BooleanField(blank=True, null=True)),
                ("enabled", models.BooleanField(default=True)),
                ("description", models.TextField(blank=True)),
                ("changed_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                "verbose_name": "schedule entry",
                "verbose_name_plural": "schedule entries",
                "ordering": ["name"],
            },
        ),
    ]
