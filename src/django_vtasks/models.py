"""Models without tables: what the admin lists of a store, and the permissions to look, operate, discard and edit."""

from typing import Any

from django.db import models


class NoRows(models.Manager["Stored"]):
    """Finds nothing in the database, so that dumpdata and other people's code meet an empty model."""

    def get_queryset(self) -> "models.QuerySet[Any]":
        """Nothing."""
        return super().get_queryset().none()


class Stored(models.Model):
    """Something that is kept in the store of a TASKS alias and not in a table."""

    id = models.CharField(primary_key=True, max_length=255)

    objects = NoRows()

    class Meta:
        abstract = True
        managed = False
        default_permissions = ()
        base_manager_name = "objects"

    def __str__(self) -> str:
        return str(self.id)


class Overview(Stored):
    """Queues and workers at a glance."""

    class Meta(Stored.Meta):
        verbose_name = "overview"
        verbose_name_plural = "overview"


class Job(Stored):
    """A job; its permissions are those of all pages."""

    class Meta(Stored.Meta):
        verbose_name = "job"
        verbose_name_plural = "jobs"
        permissions = (
            ("view_tasks", "Can see queues, workers, jobs, dead letters and the schedule"),
            ("operate_tasks", "Can retry, cancel and start jobs, and pause and resume queues"),
            ("discard_tasks", "Can discard jobs and dead letters"),
            ("edit_tasks", "Can retry dead letters with edited arguments"),
        )


class DeadLetter(Stored):
    """A job that failed for good."""

    class Meta(Stored.Meta):
        verbose_name = "dead letter"
        verbose_name_plural = "dead letters"


class ScheduleEntry(Stored):
    """A task that is due repeatedly."""

    class Meta(Stored.Meta):
        verbose_name = "schedule entry"
        verbose_name_plural = "schedule"


class ValkeyTask(Stored):
    """A running job or a dead letter of a Valkey alias, under the name of the 3.2 line."""

    class Meta(Stored.Meta):
        verbose_name = "Valkey task"
        verbose_name_plural = "Valkey tasks"
