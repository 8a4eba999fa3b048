"""django-tasks-monitor records our jobs from the framework's signals, in the web process and in the worker."""

from __future__ import annotations

import json

import pytest

from tests.integrations.project import Project, package

package("tasks_monitor")
pytestmark = pytest.mark.acceptance

JOBS = """
from django_vtasks import task


@task
async def add(a, b):
    return a + b


@task
def divide(a, b):
    return a / b


@task(max_attempts=2, backoff=0)
def stubborn():
    raise OSError("away")
"""

RECORDS = """
import json
from tasks_monitor.models import TaskRecord
print(json.dumps({
    record.task_path: [record.status, record.attempts, len(record.worker_ids), record.exception_class, record.args]
    for record in TaskRecord.objects.order_by("created_at")
}))
"""


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path, settings='INSTALLED_APPS += ["tasks_monitor"]', jobs=JOBS)
    made.manage("migrate", "--verbosity", "0")
    return made


def records(project):
    return json.loads(project.python(RECORDS))


def test_every_job_is_recorded_from_its_enqueue_to_its_end(project):
    project.python("from jobs import *; add.enqueue(1, 2); divide.enqueue(1, 0); stubborn.enqueue()")
    assert {path: record[0] for path, record in records(project).items()} == {
        "jobs.add": "READY",
        "jobs.divide": "READY",
        "jobs.stubborn": "READY",
    }
    log = project.work()
    assert "could not record" not in log
    assert records(project) == {
        "jobs.add": ["SUCCESSFUL", 1, 1, "", [1, 2]],
        "jobs.divide": ["FAILED", 1, 1, "builtins.ZeroDivisionError", [1, 0]],
        "jobs.stubborn": ["FAILED", 2, 2, "builtins.OSError", []],
    }


def test_its_dashboard_shows_them_and_its_retry_enqueues_a_new_job(project):
    project.python("from jobs import *; divide.enqueue(1, 0)")
    project.work()
    shown = project.python(
        """
        from django.contrib.auth.models import User
        from django.test import Client
        client = Client()
        client.force_login(User.objects.create_superuser("ada"))
        page = client.get("/admin/tasks_monitor/taskrecord/dashboard/")
        print(page.status_code, "divide" in page.text, "ZeroDivisionError" in page.text)
        from tasks_monitor.models import TaskRecord
        from tasks_monitor.retry import retry
        print(retry(TaskRecord.objects.get()).status)
        """
    )
    assert shown == "200 True True\nREADY"
    project.work()
    kept = "from tasks_monitor.models import TaskRecord as R\nfor r in R.objects.all(): print(r.status, r.retry_of_id)"
    assert project.python(kept) == "FAILED 1\nFAILED None"
