"""Schedule entries of the database: in the admin, and in running schedulers."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import DatabaseError
from django.urls import reverse
from django.utils import timezone

from django_vtasks.db.models import ScheduleEntry
from django_vtasks.events import Emitter
from django_vtasks.framework import task_backends
from django_vtasks.jobs.model import JobState
from django_vtasks.scheduling import rows
from django_vtasks.scheduling.firing import job_id
from django_vtasks.scheduling.options import Overlap
from django_vtasks.scheduling.scheduler import make_service
from django_vtasks.scheduling.schedules import Cron, Every
from django_vtasks.scheduling.sources import all_entries
from django_vtasks.stores.base import JobFilter
from django_vtasks.worker.runtime import Parts
from django_vtasks.worker.service import Pace
from tests.django.conftest import entry
from tests.support.waiting import aeventually

ECHO = "tests.project.tasks.echo"


@pytest.fixture(autouse=True)
def backend(settings):
    settings.TASKS = entry("django_vtasks.backends.db.DatabaseTaskBackend", QUEUES=["default", "reports"])
    return task_backends["default"]


def row(**fields):
    return ScheduleEntry.objects.create(**{"name": "beat", "task": ECHO, "schedule": "60"} | fields)


# -- what a row means -------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_row_means_what_an_entry_of_the_setting_with_its_values_means(settings):
    settings.VTASKS_SCHEDULE_TIMEZONE = "Europe/Berlin"
    row(name="plain")
    row(
        name="full",
        schedule="0 5 * * *",
        args=[1],
        kwargs={"a": 2},
        queue="reports",
        priority=3,
        jitter=4,
        catch_up="7",
        overlap="skip",
        run_on_start=True,
        description="All of it",
    )
    row(name="zoned", schedule="0 5 * * *", timezone="Asia/Tokyo")
    found = {one.name: one for one in rows.from_rows().usable}
    assert found["plain"].schedule == Every(60)
    assert (found["plain"].queue, found["plain"].priority, found["plain"].catch_up) == (None, None, 1)
    full = found["full"]
    assert full.schedule == Cron("0 5 * * *", "Europe/Berlin")
    assert (full.args, full.kwargs, full.queue, full.priority) == ((1,), {"a": 2}, "reports", 3)
    assert (full.jitter, full.catch_up, full.overlap, full.run_on_start) == (4.0, 7, Overlap.SKIP, True)
    assert found["zoned"].schedule == Cron("0 5 * * *", "Asia/Tokyo")


@pytest.mark.django_db
def test_rows_and_setting_count_together_and_a_bad_row_stops_nothing(settings):
    settings.VTASKS_SCHEDULE = {"setting": {"task": ECHO, "schedule": 5}}
    row()
    row(name="bad", schedule="0 0 30 2 *")
    row(name="worse", kwargs=[1], overlap="perhaps")
    found = all_entries()
    assert [one.name for one in found.usable] == ["setting", "beat"]
    assert {problem.entry for problem in found.problems} == {"bad", "worse"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value", "owed_again"),
    [("schedule", "30", False), ("enabled", False, False), ("timezone", "UTC", False), ("description", "x", True)],
)
def test_an_edit_of_when_an_entry_is_due_owes_nothing_of_the_past(field, value, owed_again):
    long_ago = timezone.now() - timedelta(days=9)
    edited = row(changed_at=long_ago)
    setattr(edited, field, value)
    edited.save(update_fields=[field])
    edited.refresh_from_db()
    assert (edited.changed_at == long_ago) is owed_again
    assert rows.entry_of(edited).usable[0].since == pytest.approx(edited.changed_at.timestamp())


# -- in a running scheduler -------------------------------------------------------------------------------------------


class Reading:
    """Stands for the table."""

    def __init__(self, monkeypatch):
        self.answers = []
        monkeypatch.setattr(rows, "from_rows", self.read)
        monkeypatch.setattr(rows, "REREAD_AFTER", 0.0)

    def read(self):
        answer = self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def table(monkeypatch):
    return Reading(monkeypatch)


def meaning(**fields):
    return rows.entry_of(ScheduleEntry(**{"name": "beat", "task": ECHO, "schedule": "60"} | fields))


async def settled(source, condition):
    """The entries, once they are as they should be."""

    async def found():
        entries = await source.entries()
        return entries if condition(entries) else None

    return await aeventually(found)


async def test_a_changed_table_is_followed(table):
    source = rows.RowSource()
    table.answers = [meaning()]
    assert [one.schedule for one in (await source.entries()).usable] == [Every(60)]
    table.answers = [meaning(schedule="5")]
    await settled(source, lambda found: found.usable[0].schedule == Every(5))
    source.close()


async def test_entries_are_kept_while_the_table_cannot_be_read_and_it_is_said_why(table):
    source = rows.RowSource()
    table.answers = [meaning()]
    await source.entries()
    table.answers = [DatabaseError("no such table: db_scheduleentry")]
    found = await settled(source, lambda found: found.problems)
    assert [one.name for one in found.usable] == ["beat"]
    assert "migrate" in found.problems[0].hint
    table.answers = [meaning()]
    await settled(source, lambda found: not found.problems)
    source.close()


async def test_a_source_can_be_asked_after_it_was_closed(table):
    source = rows.RowSource()
    table.answers = [meaning()]
    await source.entries()
    source.close()
    assert (await settled(source, lambda found: found.usable)).usable
    source.close()


# -- in the admin -----------------------------------------------------------------------------------------------------


@pytest.fixture
def admin(client, transactional_db):
    client.force_login(User.objects.create_superuser("operator"))
    return client


def page(name, *args):
    return reverse(f"admin:db_scheduleentry_{name}", args=args)


FORM = {
    "name": "beat",
    "task": ECHO,
    "schedule": "60",
    "args": "[]",
    "kwargs": "{}",
    "jitter": "0",
    "catch_up": "latest",
    "overlap": "allow",
    "run_on_start": "unknown",
    "enabled": "on",
}


def test_an_entry_is_added_in_the_admin(admin):
    answer = admin.post(page("add"), FORM | {"args": "", "kwargs": '{"a": 1}', "schedule": "0 5 * * mon-fri"})
    assert answer.status_code == 302, answer.context["errors"]
    saved = ScheduleEntry.objects.get()
    assert (saved.args, saved.kwargs, saved.run_on_start) == ([], {"a": 1}, None)
    assert rows.entry_of(saved).usable[0].schedule == Cron("0 5 * * mon-fri")


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        ({"schedule": "0 0 30 2 *"}, "schedule", "never fires"),
        ({"schedule": "0 5 * *"}, "schedule", "fields"),
        ({"schedule": "-5"}, "schedule", "not positive"),
        ({"schedule": "nan"}, "schedule", "not a finite number"),
        ({"timezone": "Berlin", "schedule": "0 5 * * *"}, "schedule", "unknown timezone"),
        ({"task": "echo"}, "task", "no dotted path"),
        ({"task": "tests.project.tasks.ehco"}, "task", "no task"),
        ({"kwargs": "[1]"}, "kwargs", "dict"),
        ({"args": '"ab"'}, "args", "list"),
        ({"args": "[1"}, "args", "valid JSON"),
        ({"catch_up": "some"}, "catch_up", "latest"),
        ({"overlap": "wait"}, "overlap", "valid choice"),
        ({"priority": "101"}, "priority", "-100 to 100"),
        ({"jitter": "-1"}, "jitter", "0 or more"),
        ({"queue": "nowhere"}, "__all__", "nowhere"),
        ({"name": "taken"}, "name", "setting"),
    ],
)
def test_what_would_never_run_is_refused_where_it_is_wrong(admin, settings, change, field, text):
    settings.VTASKS_SCHEDULE = {"taken": {"task": ECHO, "schedule": 5}}
    answer = admin.post(page("add"), FORM | change)
    assert answer.status_code == 200
    errors = answer.context["adminform"].form.errors
    assert list(errors) == [field]
    assert text in errors[field][0]
    assert not ScheduleEntry.objects.exists()


def test_the_list_shows_how_entries_stand(admin):
    row()
    row(name="bad", schedule="0 0 30 2 *")
    content = admin.get(page("changelist")).content.decode()
    assert "every 60 s" in content
    assert "never fires" in content


def test_the_page_of_an_entry_shows_its_next_five_slots_and_its_last_runs(admin, backend):
    beat = row()
    before = admin.get(page("change", beat.pk)).content.decode()
    assert before.count(" UTC</div>") == 5
    job = fired(backend, beat)
    after = admin.get(page("change", beat.pk)).content.decode()
    assert f"/job/{job}/" in after.replace("_2D", "-")
    assert "</a> ready" in after


def fired(backend, beat):
    """Let a scheduler look once; the id of the job that it enqueued."""
    make = make_service(backend)
    asyncio.run(look(make, backend.new_worker_store()))
    slot = backend.admin_store.recorded_slots([beat.name])[beat.name]
    return job_id(beat.name, slot, like=backend.client_store.new_id())


async def look(make, store):
    await store.open()
    emitter = Emitter()
    service = make(Parts(store, "owner", emitter, Pace("scheduler", emitter)))
    await service.tick()
    service._source.close()
    await store.close()


def test_entries_are_disabled_enabled_and_run_in_the_list(admin, backend):
    long_ago = timezone.now() - timedelta(days=9)
    beat = row(changed_at=long_ago)

    def act(action):
        admin.post(page("changelist"), {"action": action, "_selected_action": [beat.pk]})
        beat.refresh_from_db()

    act("disable")
    assert not beat.enabled
    act("enable")
    assert beat.enabled
    assert beat.changed_at > long_ago
    act("run")
    (ready,) = backend.admin_store.page(JobFilter(state=JobState.READY)).records
    assert ready.job.func == ECHO
    assert [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")] == [
        "Disabled.",
        "Enabled.",
        f"Ran it now as job {ready.job.id}.",
    ]


def test_running_an_entry_now_that_must_not_overlap_says_so(admin, backend):
    beat = row(overlap="skip")
    for _ in range(2):
        answer = admin.post(page("changelist"), {"action": "run", "_selected_action": [beat.pk]}, follow=True)
    assert "not done yet" in answer.content.decode()
    assert len(backend.admin_store.page(JobFilter(state=JobState.READY)).records) == 1


def test_who_may_only_look_cannot_run_entries(client, transactional_db, backend):
    user = User.objects.create_user("looker", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_scheduleentry", content_type__app_label="db"))
    client.force_login(user)
    beat = row()
    assert client.get(page("changelist")).status_code == 200
    client.post(page("changelist"), {"action": "run", "_selected_action": [beat.pk]})
    assert not backend.admin_store.page(JobFilter(state=JobState.READY)).records
