"""Names, errors and arguments that a producer made up change neither terminals nor pages."""

from __future__ import annotations

import io
import re

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.urls import reverse

from django_vtasks.jobs.outcomes import Raised
from tests.support.builders import a_failure
from tests.support.operators import Scene

EVIL = "\x1b]0;owned\x07\x1b[2J\u202efake\r\nDONE"
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def ids(memory):
    """Ids of jobs in every state, all of whose texts are hostile."""
    scene = Scene(memory)
    scene.announce(worker_id=EVIL, queues=("default", EVIL), running=1)
    failing = Raised(failure=a_failure(EVIL, exception_class=EVIL, fingerprint=EVIL, traceback=EVIL))
    said = {"func": f"app.{EVIL}", "args": [EVIL], "kwargs": {EVIL: EVIL}, "queue": EVIL}
    found = [*scene.ready(**said), *scene.delayed(**said), *scene.dead(outcome=failing, **said)]
    return [*found, *scene.running(progress=(1, 2, EVIL), **said), *scene.succeeded(value=b'"\x7f"', **said)]


def commands(ids):
    yield from (("status",), ("workers",), ("dlq", "list"), ("dlq", "list", "--groups"), ("doctor",))
    yield from (("jobs", "--state", state) for state in ("ready", "scheduled", "leased", "dead", "succeeded"))
    yield from (("explain", job_id) for job_id in ids)
    yield from (("watch", job_id, "--timeout", "0") for job_id in ids)
    yield from (("dlq", "show", job_id) for job_id in ids)
    yield from (("pause", EVIL), ("resume", EVIL), ("pause", f"not{EVIL}"), ("explain", EVIL))


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["people", "programs"])
def test_no_command_writes_what_a_terminal_obeys(db, ids, more):
    for command in commands(ids):
        out = io.StringIO()
        try:
            call_command("vtasks", *command, *more, stdout=out)
        except CommandError as error:
            out.write(str(error))
        assert not OBEYED.search(out.getvalue()), command


def test_no_page_turns_the_direction_of_writing(client, db, ids):
    client.force_login(User.objects.create_superuser("root"))
    addresses = [reverse("admin:django_vtasks_job_change", args=[job_id]) for job_id in ids]
    addresses += [reverse("admin:django_vtasks_job_changelist") + f"?state={state}" for state in ("ready", "leased")]
    addresses += [reverse(f"admin:django_vtasks_{page}_changelist") for page in ("overview", "deadletter")]
    lively = [reverse("admin:django_vtasks_job_live", args=[job_id]) for job_id in ids]
    for answer in map(client.get, (*lively, reverse("admin:django_vtasks_overview_live"))):
        assert not OBEYED.search(answer.json()["html"])
    for address in addresses:
        page = client.get(address).content.decode()
        assert "fake" in page
        assert not OBEYED.search(page), address
