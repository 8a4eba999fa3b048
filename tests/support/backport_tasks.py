"""A task declared through the backport of the Tasks framework; importing this patches generic classes of Django."""

from __future__ import annotations

from django_tasks import task


@task()
def declared(a):
    return a
