"""Enqueuing in views whose requests are transactions (`ATOMIC_REQUESTS`), on every store."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import path

from django_vtasks.framework import TaskResultDoesNotExist, task_backends
from tests.support import sample_tasks as sample

enqueued = []


def is_stored(job_id):
    try:
        task_backends["default"].get_result(job_id)
    except TaskResultDoesNotExist:
        return False
    return True


def view(request, way, end):
    """Enqueue, look for the job from outside of the transaction where the store does not share it, and end."""
    result = sample.bare.enqueue(1) if way == "sync" else async_to_sync(sample.bare.aenqueue)(1)
    enqueued.append(result.id)
    assert connections[request.headers["alias"]].in_atomic_block
    if not task_backends["default"].client_store.transactional:
        assert not is_stored(result.id)
    if end == "raises":
        raise ValueError
    if end == "rolls-back":
        transaction.set_rollback(True, using=request.headers["alias"])
    return HttpResponse()


urlpatterns = [path("<way>/<end>", view)]


@pytest.fixture
def alias(scene, settings, monkeypatch, django_db_setup, django_db_blocker):
    """The database that makes a transaction of each request: the one the jobs are in, if they are in any."""
    settings.ROOT_URLCONF = __name__
    alias = task_backends["default"].options.get("DATABASE") or "default"
    monkeypatch.setitem(connections.settings[alias], "ATOMIC_REQUESTS", True)
    monkeypatch.setitem(connections[alias].settings_dict, "ATOMIC_REQUESTS", True)
    enqueued.clear()
    with django_db_blocker.unblock():
        yield alias


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize(
    ("end", "status", "stored"), [("well", 200, True), ("raises", 500, False), ("rolls-back", 200, False)]
)
def test_a_job_is_stored_with_the_request_that_enqueued_it(alias, way, end, status, stored):
    response = Client(raise_request_exception=False).get(f"/{way}/{end}", headers={"alias": alias})
    assert response.status_code == status
    assert [is_stored(job_id) for job_id in enqueued] == [stored]
