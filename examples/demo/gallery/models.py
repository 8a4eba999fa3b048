"""What the demo remembers."""

import uuid

from django.db import models
from django.urls import reverse


def upload_path(_picture: "Picture", filename: str) -> str:
    """Under a name of ours: what a browser calls a file is nobody's business."""
    suffix = filename.rpartition(".")[2].lower()
    return f"pictures/{uuid.uuid4().hex}.{suffix if suffix.isalnum() else 'bin'}"


class Picture(models.Model):
    """An uploaded picture, and the job that makes its thumbnails."""

    title = models.CharField(max_length=100)
    file = models.ImageField(upload_to=upload_path)
    job_id = models.CharField(max_length=64, blank=True, editable=False, db_index=True)
    uploaded_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        """Newest first."""

        ordering = ["-uploaded_at"]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        """The page of its job."""
        return reverse("job", args=[self.job_id])


class Beat(models.Model):
    """How often the heartbeat has run, and when last."""

    count = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.count} beats"
