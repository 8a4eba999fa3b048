"""Every address of the admin's pages, whatever is sent to it: closed to whom it does not concern, and never changed by
looking. A page that is added is found here by itself."""

from __future__ import annotations

from itertools import product

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from django_vtasks.admin.base import StorePage
from django_vtasks.framework import task_backends
from django_vtasks.jobs.model import JobState
from django_vtasks.stores.base import JobFilter
from tests.support.operators import Scene

pytestmark = pytest.mark.django_db

KINDS = ("retry", "hasten", "cancel", "discard")
FORGED = {
    "confirmed": "1",
    "matching": "1",
    "from_list": "1",
    "queue": "default",
    "do": "pause",
    "entry": "nightly",
    "args": "[]",
    "kwargs": "{}",
    "rate": "5",
}


@pytest.fixture
def scene(transactional, settings):
    settings.VTASKS_SCHEDULE = {"nightly": {"task": "tests.project.tasks.echo", "schedule": "0 3 * * *"}}
    made = Scene(transactional)
    made.announce()
    made.ready(2), made.delayed(2), made.running(2), made.dead(2), made.succeeded(2)
    return made


def ids(scene):
    """The jobs of every state."""
    return {state: sorted(r.job.id for r in scene.admin.page(JobFilter(state=state)).records) for state in JobState}


def addresses(scene):
    """Every address of every page; one that is about a job, for a job of every state."""
    some = [found[0] for found in ids(scene).values() if found]
    for model, page in admin.site._registry.items():
        if isinstance(page, StorePage):
            for route, name, _ in page.routes():
                for args in [[job_id] for job_id in some] if "job_id" in route else [[]]:
                    yield reverse(f"admin:django_vtasks_{model._meta.model_name}_{name}", args=args)


def requests(scene):
    """Everything that might be sent to them."""
    found = ids(scene)
    for address in addresses(scene):
        yield "get", address, {}
        # Only one of them looks at the action.
        acts = list(product(KINDS, JobState)) if address.endswith("/act/") else [("retry", JobState.DEAD)]
        for action, state in acts:
            for method in ("get", "post"):
                yield method, address, FORGED | {"action": action, "state": state.value, "id": found[state]}


def sent(client, scene):
    """The status of every answer; that nothing was changed is looked at in between."""
    before, statuses = (ids(scene), scene.admin.counts()), set()
    for method, address, given in requests(scene):
        statuses.add(getattr(client, method)(address, given).status_code)
        if (ids(scene), scene.admin.counts()) != before:
            pytest.fail(f"{method} {address} {given}")
    assert LogEntry.objects.count() == 0
    return statuses


def who(*permissions, **fields):
    user = User.objects.create_user("somebody", **fields)
    user.user_permissions.add(*Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def test_every_page_is_looked_at(scene):
    assert len(set(addresses(scene))) > 20


def test_nobody_is_let_in_without_logging_in(scene):
    assert sent(Client(), scene) == {302}


def test_the_staff_is_not_let_in_without_the_permission(scene):
    everything = ("operate_tasks", "discard_tasks", "edit_tasks", "view_job", "change_job", "delete_job")
    assert sent(who(*everything, is_staff=True), scene) == {403}


def test_permissions_do_not_let_in_who_is_not_of_the_staff_or_not_active(scene):
    assert sent(who("view_tasks", "operate_tasks"), scene) == {302}


def test_who_may_look_changes_nothing(scene):
    assert sent(who("view_tasks", is_staff=True), scene) <= {200, 302, 403, 405}


def test_who_may_edit_and_discard_but_not_operate_only_discards(scene):
    client = who("view_tasks", "edit_tasks", "discard_tasks", is_staff=True)
    before = ids(scene)
    for method, address, given in requests(scene):
        if given.get("action") != "discard":
            getattr(client, method)(address, given)
    assert ids(scene) == before


def test_looking_changes_nothing_whoever_does_it(scene):
    client = who(is_staff=True, is_superuser=True)
    before = ids(scene), scene.admin.counts()
    for method, address, given in requests(scene):
        if method == "get":
            assert client.get(address, given).status_code in {200, 302, 405}
    assert (ids(scene), scene.admin.counts()) == before
    assert LogEntry.objects.count() == 0


def test_nothing_is_changed_without_a_token_whoever_does_it(scene):
    user = User.objects.create_superuser("root")
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    before = ids(scene), scene.admin.counts()
    answers = {client.post(address, given).status_code for way, address, given in requests(scene) if way == "post"}
    assert answers == {403}
    assert (ids(scene), scene.admin.counts()) == before


def test_ids_of_another_alias_are_not_touched(scene, settings):
    settings.TASKS = {**settings.TASKS, "other": {"BACKEND": "tests.support.backends.MemoryBackend", "QUEUES": []}}
    other = Scene(task_backends["other"].client_store)
    theirs = {JobState.READY: other.ready(2), JobState.DEAD: other.dead(2)}
    client, before = who(is_staff=True, is_superuser=True), ids(other)
    for state, found in theirs.items():
        for action in KINDS:
            given = {"action": action, "state": state.value, "id": found, "alias": "default", "confirmed": "1"}
            client.post(reverse("admin:django_vtasks_job_act"), given)
    assert ids(other) == before


def test_a_state_that_is_not_that_of_the_ids_touches_none(scene):
    client, before = who(is_staff=True, is_superuser=True), ids(scene)
    for state, other in ((JobState.READY, JobState.DEAD), (JobState.DEAD, JobState.LEASED)):
        given = {"action": "discard", "state": state.value, "id": before[other], "confirmed": "1"}
        client.post(reverse("admin:django_vtasks_job_act"), given)
    assert ids(scene) == before
