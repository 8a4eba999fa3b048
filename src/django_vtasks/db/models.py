"""The tables of the database store. Their rows are written by `stores.database` with statements of its own.

`db_queuedtask` and `db_vtaskmetadata` are shared with the 3.2 line and with producers in other languages, which write
nine columns of the former: every further column is nullable.
"""

import uuid
from typing import Any, ClassVar

from django.core import checks
from django.db import models

from .schedule import ScheduleEntry  # noqa: F401 - a model is found in this module


class TaskStatus(models.TextChoices):
    """Where a row of `QueuedTask` is; one that is QUEUED with `run_after` set is not ready yet."""

    QUEUED = "QUEUED", "Queued"
    PROCESSING = "PROCESSING", "Processing"
    FAILED = "FAILED", "Failed"


class QueuedTask(models.Model):
    """One job that waits or runs, or one dead letter. `data` is its payload, `created_at` since when it is ready."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    queue = models.CharField(max_length=255)
    unique_key = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001 - null is outside the index
    data = models.BinaryField()
    status = models.CharField(max_length=20, choices=TaskStatus.choices, default=TaskStatus.QUEUED)
    worker_id = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001 - shared with the 3.2 line
    created_at = models.DateTimeField(auto_now_add=True)
    priority = models.IntegerField(default=0)
    run_after = models.DateTimeField(null=True, blank=True)

    # Of the lease: the token of the round that claimed the job, and what the attempt says of itself.
    lease_token = models.CharField(max_length=32, null=True, editable=False)  # noqa: DJ001 - as `worker_id`
    claimed_at = models.DateTimeField(null=True, editable=False)
    cancel_requested_at = models.DateTimeField(null=True, editable=False)
    progress = models.TextField(null=True, editable=False)  # noqa: DJ001 - null = nothing was said
    progress_at = models.DateTimeField(null=True, editable=False)
    metadata = models.TextField(null=True, editable=False)  # noqa: DJ001 - null = as in the payload

    # Of somebody who waits for its end, where the database can tell.
    waited = models.BooleanField(null=True, editable=False)

    # Of a dead letter: what lists are sorted, grouped and filtered by. The letter itself is in `data`.
    buried_at = models.DateTimeField(null=True, editable=False)
    failed_at = models.DateTimeField(null=True, editable=False)
    first_failed_at = models.DateTimeField(null=True, editable=False)
    func = models.CharField(max_length=255, null=True, editable=False)  # noqa: DJ001 - null = no letter
    reason = models.CharField(max_length=32, null=True, editable=False)  # noqa: DJ001 - null = no letter
    fingerprint = models.CharField(max_length=255, null=True, editable=False)  # noqa: DJ001 - null = no letter
    result_until = models.DateTimeField(null=True, editable=False)

    # Of a limited job: the group it is parked in while it waits for its limit, the key of which its lease is a permit.
    limit_group = models.CharField(max_length=64, null=True, editable=False)  # noqa: DJ001 - null = not parked
    limit_key = models.CharField(max_length=64, null=True, editable=False)  # noqa: DJ001 - null = no limit

    class Meta:
        verbose_name = "queued task"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["queue", "unique_key"],
                condition=models.Q(status__in=["QUEUED", "PROCESSING"], unique_key__isnull=False),
                name="unique_queued_or_processing_task",
            )
        ]

    def __str__(self) -> str:
        return f"{self.id} ({self.queue}, {self.status})"

    @classmethod
    def check(cls, **kwargs: Any) -> list[checks.CheckMessage]:
        """The checks of a model, except that MySQL lacks conditional constraints: `UniqueLock` does without."""
        return [problem for problem in super().check(**kwargs) if problem.id != "models.W036"]


class JobResult(models.Model):
    """What became of a job that is over, until `expires_at`.

    `data` is its payload as it waited, `ending` the JSON of what its last attempt adds to that, `value` what it
    returned.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    queue = models.CharField(max_length=255)
    state = models.CharField(max_length=20)
    data = models.BinaryField()
    ending = models.TextField(null=True)  # noqa: DJ001 - null = `data` says all
    value = models.BinaryField(null=True)
    progress = models.TextField(null=True)  # noqa: DJ001 - null = nothing was said
    progress_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField()
    finished_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        verbose_name = "job result"
        indexes: ClassVar = [
            models.Index(fields=["settled_at", "id"], name="db_jobresult_settled_idx"),
            models.Index(fields=["expires_at"], name="db_jobresult_expires_idx"),
        ]

    def __str__(self) -> str:
        return f"{self.id} ({self.queue}, {self.state})"


class UniqueLock(models.Model):
    """Who has a unique key. `id` is the key's SHA-256 in hexadecimal digits, so that any text can be a key.

    Without `expires_at` it counts while its job waits and, unless `until_claimed`, while it runs.
    """

    id = models.CharField(max_length=64, primary_key=True, editable=False)
    job_id = models.UUIDField()
    until_claimed = models.BooleanField()
    expires_at = models.DateTimeField(null=True, db_index=True)

    class Meta:
        verbose_name = "unique lock"

    def __str__(self) -> str:
        return f"{self.id} of {self.job_id}"


class LimitKey(models.Model):
    """A concurrency or a rate key: who has this row locked, decides. `arrival` is the rate's next theoretical arrival,
    in epoch seconds."""

    id = models.CharField(max_length=64, primary_key=True, editable=False)
    arrival = models.FloatField(null=True)

    class Meta:
        verbose_name = "limit key"

    def __str__(self) -> str:
        return self.id


class LimitGroup(models.Model):
    """Parked jobs of one queue with the same keys, and from when on it is worth a look whether one may start."""

    id = models.CharField(max_length=64, primary_key=True, editable=False)
    queue = models.CharField(max_length=255)
    limit_key = models.CharField(max_length=64, null=True, db_index=True)  # noqa: DJ001 - null = a rate only
    look_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = "limit group"

    def __str__(self) -> str:
        return f"{self.id} ({self.queue})"


class VTaskMetadata(models.Model):
    """One named text: liveness and description of workers, roles, pauses, the last slot of a schedule entry."""

    key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires_at = models.DateTimeField(null=True, blank=True, db_index=True)

    class Meta:
        verbose_name_plural = "VTask Metadata"

    def __str__(self) -> str:
        return self.key
