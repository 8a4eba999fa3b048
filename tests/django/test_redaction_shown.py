"""Nothing that a job says of itself tells what is hidden of its arguments: keys, progress, metadata, return value."""

from __future__ import annotations

import asyncio
import io

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.urls import reverse

from django_vtasks.framework import task_backends
from django_vtasks.jobs.model import JobState
from django_vtasks.stores.base import JobFilter
from django_vtasks.tasks.redaction import HIDDEN
from django_vtasks.worker import Worker
from tests.support import secretive_tasks as tasks
from tests.support.operators import Scene

IBAN = "DE02120300000000202051"


@pytest.fixture
def root(client, db):
    client.force_login(User.objects.create_superuser("root"))
    return client


def vtasks(*arguments):
    out = io.StringIO()
    call_command("vtasks", *arguments, stdout=out)
    return out.getvalue()


def shown(root, job_id, state):
    """Everything that operators see of a job."""
    pages = [("overview_changelist", [], {}), ("job_changelist", [], {"state": state})]
    pages += [("job_change", [job_id], {}), ("job_live", [job_id], {})]
    yield from (
        root.get(reverse(f"admin:django_vtasks_{name}", args=args), given).content.decode()
        for name, args, given in pages
    )
    for command in (("explain", job_id), ("jobs", "--state", state)):
        yield vtasks(*command)
        yield vtasks(*command, "--json")


def test_keys_that_are_made_from_a_hidden_argument_are_not_shown(transactional, root):
    first = tasks.keyed.enqueue(1, IBAN)
    scene = Scene(transactional)
    scene.announce(queues=("default",), running=1)
    scene.claim("default")
    second = tasks.keyed.enqueue(2, IBAN)
    told = list(shown(root, second.id, "ready"))
    assert any(f"account:{HIDDEN}" in text for text in told)
    assert any(f"rate:{HIDDEN}" in text for text in told)
    assert any(f"move:{HIDDEN}:2" in text for text in told)
    assert any(first.id in text for text in told)
    assert [text for text in told if IBAN in text] == []


def test_what_a_job_quotes_of_a_hidden_argument_is_not_shown(transactional, root):
    job = tasks.talkative.enqueue(1, IBAN)
    asyncio.run(Worker(task_backends["default"]).run(handle_signals=False, run_once=True))
    record = transactional.get(job.id)
    assert IBAN in record.value.decode(), "it is kept as it is"
    told = list(shown(root, job.id, "succeeded"))
    assert any(f"moved 1 to {HIDDEN}" in text for text in told)
    assert any(f"&lt;{HIDDEN}&gt;" in text for text in told)
    assert any(f"moving to {HIDDEN}" in text for text in told)
    assert [text for text in told if IBAN in text] == []


def test_the_progress_of_a_running_job_does_not_tell(transactional, root):
    (job_id,) = Scene(transactional).running(
        func="tests.support.secretive_tasks.transfer", args=[1, IBAN], progress=(1, 2, f"moving to {IBAN}")
    )
    told = list(shown(root, job_id, "leased"))
    assert any(f"moving to {HIDDEN}" in text for text in told)
    assert [text for text in told if IBAN in text] == []
    with pytest.raises(Exception, match="Still") as still:
        vtasks("watch", job_id, "--timeout", "0")
    assert IBAN not in str(still.value)


def test_a_group_of_dead_letters_does_not_tell(transactional, root):
    tasks.transfer.enqueue(1, IBAN)
    asyncio.run(Worker(task_backends["default"]).run(handle_signals=False, run_once=True))
    assert transactional.page(JobFilter(state=JobState.DEAD)).records
    for page in ("overview_changelist", "deadletter_changelist"):
        assert IBAN not in root.get(reverse(f"admin:django_vtasks_{page}")).content.decode()
