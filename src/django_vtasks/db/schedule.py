"""Schedule entries that can be edited while schedulers run."""

from typing import Any, ClassVar

from django.db import models
from django.utils.timezone import now

TIMING = ("name", "schedule", "timezone", "enabled")
"""The fields that say when an entry is due."""


class ScheduleEntry(models.Model):
    """A task due repeatedly, as a row; read every few seconds by whoever schedules, and checked when it is read.

    `schedule` is a cron expression or a number of seconds; the other fields are the keys of `VTASKS_SCHEDULE`, empty
    where they are left out. `changed_at` is since when the schedule is as it is: slots before that are not owed.
    """

    name = models.CharField(max_length=200, unique=True)
    task = models.CharField(max_length=255)
    schedule = models.CharField(max_length=255)
    timezone = models.CharField(max_length=64, blank=True)
    args = models.JSONField(default=list, blank=True)
    kwargs = models.JSONField(default=dict, blank=True)
    queue = models.CharField(max_length=255, blank=True)
    priority = models.SmallIntegerField(null=True, blank=True)
    jitter = models.FloatField(default=0.0)
    catch_up = models.CharField(max_length=8, default="latest")
    overlap = models.CharField(max_length=8, default="allow")
    run_on_start = models.BooleanField(null=True, blank=True)
    enabled = models.BooleanField(default=True)
    description = models.TextField(blank=True)
    changed_at = models.DateTimeField(editable=False, default=now)

    class Meta:
        verbose_name = "schedule entry"
        verbose_name_plural = "schedule entries"
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save; an edit of when the entry is due owes nothing of the past."""
        if not self._state.adding and self._timing_changed():
            self.changed_at = now()
            fields = kwargs.get("update_fields")
            if fields is not None:
                kwargs["update_fields"] = {*fields, "changed_at"}
        super().save(*args, **kwargs)

    def _timing_changed(self) -> bool:
        stored = type(self)._default_manager.filter(pk=self.pk).values_list(*TIMING).first()
        return bool(stored != tuple(getattr(self, name) for name in TIMING))
