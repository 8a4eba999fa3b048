"""The pages of the 3.2 line: rows of the database store, and the list of Valkey tasks."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from django_vtasks import models
from django_vtasks.admin.valkey import ValkeyTaskPage, register
from django_vtasks.db.models import QueuedTask, VTaskMetadata
from django_vtasks.framework import task_backends
from django_vtasks.jobs.model import JobState
from django_vtasks.stores.base import JobFilter
from tests.django.conftest import entry
from tests.support.builders import a_key
from tests.support.operators import Scene

VALKEY = "django_vtasks.backends.valkey.ValkeyTaskBackend"


@pytest.fixture
def scene(transactional_db, settings):
    """Jobs in the default database, as a worker in another thread sees them."""
    settings.TASKS = entry("django_vtasks.backends.db.DatabaseTaskBackend", QUEUES=[])
    return Scene.of(task_backends["default"])


def staff(client, *codenames):
    user = User.objects.create_user(f"user{User.objects.count()}", is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__in=codenames))
    client.force_login(user)
    return client


def rows(*args, name="queuedtask_changelist"):
    return reverse(f"admin:db_{name}", args=args)


def test_the_list_of_rows_has_the_columns_filters_and_search_of_the_3_2_line():
    page = admin.site._registry[QueuedTask]
    assert tuple(page.list_display) == ("id", "queue", "status", "created_at")
    assert [getattr(one, "parameter_name", one) for one in page.list_filter] == ["status", "queue"]
    assert tuple(page.search_fields) == ("id", "queue")


def test_rows_are_listed_filtered_and_searched(scene, client):
    (mail,) = scene.ready(queue="mails")
    (dead,) = scene.dead()
    staff(client, "view_queuedtask")
    for query, shown, hidden in (
        ("", {mail, dead}, set()),
        ("?status=FAILED", {dead}, {mail}),
        ("?queue=mails", {mail}, {dead}),
        (f"?q={mail[:13]}", {mail}, {dead}),
        ("?q=mails", {mail}, {dead}),
    ):
        content = client.get(rows() + query).content.decode()
        assert all(one in content for one in shown), query
        assert not any(one in content for one in hidden), query


def test_a_row_is_shown_even_if_its_code_is_gone_or_it_is_no_job(scene, client):
    (gone,) = scene.ready(func="nowhere.tasks.gone", kwargs={"password": "hunter2"})
    garbage = QueuedTask.objects.create(queue="default", data=b"\xff no job", status="QUEUED")
    staff(client, "view_queuedtask")
    content = client.get(rows(gone, name="queuedtask_change")).content.decode()
    assert "nowhere.tasks.gone" in content
    assert "hunter2" not in content
    assert reverse("admin:django_vtasks_job_change", args=[gone]) in content
    assert "bytes that are no job" in client.get(rows(garbage.pk, name="queuedtask_change")).content.decode()


def test_rows_cannot_be_added_or_edited_by_hand(scene, client):
    (job_id,) = scene.ready()
    staff(client, "view_queuedtask", "add_queuedtask", "change_queuedtask")
    assert client.get(rows(name="queuedtask_add")).status_code == 403
    assert client.post(rows(job_id, name="queuedtask_change"), {"queue": "other"}).status_code == 403
    assert QueuedTask.objects.get().queue == "default"


def test_deleting_rows_frees_unique_keys_and_leaves_running_jobs(scene, client):
    scene.ready(unique=a_key("k"))
    scene.delayed()
    scene.dead()
    (running,) = scene.running()
    staff(client, "view_queuedtask", "delete_queuedtask")
    ids = [str(one) for one in QueuedTask.objects.values_list("pk", flat=True)]
    data = {"action": "delete_selected", "_selected_action": ids, "post": "yes"}
    response = client.post(rows(), data, follow=True)
    assert [str(one) for one in QueuedTask.objects.values_list("pk", flat=True)] == [running]
    assert "1 job is running and cannot be deleted: cancel instead." in [str(m) for m in response.context["messages"]]
    scene.ready(unique=a_key("k"))
    assert len(scene.admin.page(JobFilter(state=JobState.READY)).records) == 1
    assert LogEntry.objects.exists()


def test_deleting_one_row_goes_through_the_store(scene, client):
    (job_id,) = scene.ready(unique=a_key("k"))
    staff(client, "view_queuedtask", "delete_queuedtask")
    client.post(rows(job_id, name="queuedtask_delete"), {"post": "yes"})
    scene.ready(unique=a_key("k"))
    assert len(scene.admin.page(JobFilter(state=JobState.READY)).records) == 1


def test_metadata_is_listed_and_read_only(scene, client):
    VTaskMetadata.objects.create(key="vtasks_last_run:beat", value="1800000000.0")
    staff(client, "view_vtaskmetadata", "add_vtaskmetadata", "change_vtaskmetadata", "delete_vtaskmetadata")
    content = client.get(reverse("admin:db_vtaskmetadata_changelist")).content.decode()
    assert "vtasks_last_run:beat" in content
    assert "1800000000.0" in content
    assert client.get(reverse("admin:db_vtaskmetadata_add")).status_code == 403
    assert 'name="action"' not in content


def test_the_pages_of_the_admin_work_on_the_database_backend(scene, client):
    (dead,) = scene.dead()
    scene.announce()
    staff(client, "view_tasks", "operate_tasks")
    for name in ("overview", "job", "deadletter", "scheduleentry"):
        assert client.get(reverse(f"admin:django_vtasks_{name}_changelist")).status_code == 200
    data = {"alias": "default", "action": "retry", "id": dead, "state": "dead"}
    client.post(reverse("admin:django_vtasks_job_act"), data)
    (record,) = scene.admin.page(JobFilter(state=JobState.READY)).records
    assert record.job.retry_of == dead


# -- the list of Valkey tasks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("backend", "registered"), [(VALKEY, True), ("tests.support.backends.MemoryBackend", False)])
def test_the_list_is_registered_when_an_alias_names_the_valkey_backend(settings, backend, registered):
    settings.TASKS = entry(backend, OPTIONS={"BROKER_URL": "redis://127.0.0.1:1"})
    site = admin.AdminSite(name="other")
    register(site)
    assert site.is_registered(models.ValkeyTask) is registered


@pytest.mark.valkey
@pytest.mark.django_db
def test_the_list_shows_running_jobs_and_dead_letters(settings, clean_valkey, rf):
    settings.TASKS = entry(VALKEY, QUEUES=[], OPTIONS={"BROKER_URL": clean_valkey.url})
    scene = Scene.of(task_backends["default"])
    (running,), dead, (waiting,) = scene.running(), scene.dead(120), scene.ready()
    page = ValkeyTaskPage(models.ValkeyTask, admin.site)
    lines = listed(page, rf)
    assert len(lines) == 100
    everything = {line.id: line for line in (*lines, *listed(page, rf, p="2"))}
    assert set(everything) == {running, *dead}
    assert (everything[running].status, everything[dead[0]].status) == ("PROCESSING", "FAILED")
    assert everything[running].func_str == "tests.project.tasks.echo"
    assert waiting not in everything
    in_order = [line.id for line in listed(page, rf, o="1")]
    assert in_order == sorted(everything)[:100]
    assert [line.id for line in listed(page, rf, o="-1")] == sorted(everything, reverse=True)[:100]
    assert listed(page, rf, o="nonsense", p="nonsense")


def listed(page, rf, **query):
    request = rf.get("/", query)
    request.user = User(is_staff=True, is_superuser=True)
    response = page.tasks(request)
    response.context_data["available_apps"] = []
    assert response.render().status_code == 200
    return list(response.context_data["page"])


@pytest.mark.django_db
def test_the_list_says_when_valkey_is_away(settings, rf):
    settings.TASKS = entry(VALKEY, OPTIONS={"BROKER_URL": "redis://127.0.0.1:1", "CONNECT_TIMEOUT": 0.2})
    request = rf.get("/")
    request.user = User(is_staff=True, is_superuser=True)
    response = ValkeyTaskPage(models.ValkeyTask, admin.site).tasks(request)
    assert response.context_data["problems"][0].startswith("default: ")
