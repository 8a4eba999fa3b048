"""What tasks of the tests leave behind, so that a test can see what ran, in which process, how often."""

from __future__ import annotations

from django.db import models


class Effect(models.Model):
    """One row per run of a task that records its effect."""

    label = models.CharField(max_length=200)
    pid = models.IntegerField()
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.label
