"""What operators do in the admin: with which permission, after which question, with which trace in the log."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils.http import urlencode

from django_vtasks.jobs.model import JobState
from django_vtasks.jobs.outcomes import Raised
from django_vtasks.operating import bulk
from django_vtasks.stores.base import JobFilter
from tests.support.builders import a_failure, a_key
from tests.support.operators import AwayBackend, Scene

pytestmark = pytest.mark.django_db

ACT = "admin:django_vtasks_job_act"


@pytest.fixture
def scene(memory):
    return Scene(memory)


def staff(*permissions, client=None):
    """A client of somebody on the staff with these permissions."""
    user = User.objects.create_user(f"user{User.objects.count()}", is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__in=[f"{name}_tasks" for name in permissions]))
    client = client or Client()
    client.force_login(user)
    return client


@pytest.fixture
def operator():
    return staff("view", "operate", "discard", "edit")


def url(name, *args, **query):
    return reverse(f"admin:django_vtasks_{name}", args=args) + (f"?{urlencode(query)}" if query else "")


def act(client, action, ids=(), **given):
    """Send the form of a list or of a page."""
    data = {"alias": "default", "action": action, "id": list(ids)} | given
    return client.post(reverse(ACT), data, follow=True)


def said(response):
    """The messages that a page shows."""
    return [str(message) for message in response.context["messages"]]


def ids(scene, state, **which):
    return {record.job.id for record in scene.admin.page(JobFilter(state=JobState(state), **which)).records}


# -- who may do what --------------------------------------------------------------------------------------------------

NEEDED = [
    ("retry", "dead", "operate"),
    ("cancel", "ready", "operate"),
    ("hasten", "scheduled", "operate"),
    ("discard", "dead", "discard"),
]


def made(scene, state):
    return {"dead": scene.dead, "ready": scene.ready, "scheduled": scene.delayed}[state]()


@pytest.mark.parametrize(("action", "state", "needed"), NEEDED)
def test_an_action_needs_its_own_permission(scene, action, state, needed):
    (job_id,) = made(scene, state)
    others = {"view", "operate", "discard", "edit"} - {needed}
    assert act(staff(*others), action, [job_id], state=state, confirmed=1).status_code == 403
    assert ids(scene, state) == {job_id}
    assert not LogEntry.objects.exists()
    assert act(staff("view", needed), action, [job_id], state=state, confirmed=1).status_code == 200
    assert ids(scene, state) == set()


@pytest.mark.parametrize(("action", "state", "needed"), NEEDED)
def test_an_action_without_the_permission_to_view_is_refused(scene, action, state, needed):
    (job_id,) = made(scene, state)
    assert act(staff(needed), action, [job_id], state=state, confirmed=1).status_code == 403


def test_pause_and_running_an_entry_need_the_permission_to_operate(scene, settings):
    settings.VTASKS_SCHEDULE = {"beat": {"task": "tests.project.tasks.echo", "schedule": 60}}
    scene.ready()
    client = staff("view", "discard", "edit")
    assert client.post(url("overview_queue"), {"queue": "default", "do": "pause"}).status_code == 403
    assert client.post(url("scheduleentry_run"), {"entry": "beat"}).status_code == 403


def test_editing_needs_both_permissions(scene):
    (job_id,) = scene.dead()
    for permissions in (("view", "operate"), ("view", "edit"), ("operate", "edit")):
        assert staff(*permissions).get(url("job_edit", job_id)).status_code == 403
    assert staff("view", "operate", "edit").get(url("job_edit", job_id)).status_code == 200


@pytest.mark.parametrize("name", ["job_act", "overview_queue", "scheduleentry_run"])
def test_nothing_is_changed_by_a_link(operator, scene, name):
    assert operator.get(url(name)).status_code == 405


@pytest.mark.parametrize("name", ["job_act", "overview_queue", "scheduleentry_run"])
def test_nothing_is_changed_without_a_csrf_token(scene, name):
    client = staff("view", "operate", "discard", client=Client(enforce_csrf_checks=True))
    assert client.post(url(name), {"alias": "default"}).status_code == 403


# -- one job ----------------------------------------------------------------------------------------------------------


def test_retry_one_dead_letter(operator, scene):
    (job_id,) = scene.dead()
    response = act(operator, "retry", [job_id], state="dead")
    assert said(response) == ["Retried 1 job."]
    (record,) = scene.admin.page(JobFilter(state=JobState.READY)).records
    assert record.job.retry_of == job_id
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.action_flag, entry.get_change_message()) == (job_id, CHANGE, "Retried 1 job.")
    assert entry.get_admin_url() == url("job_change", job_id)


def test_what_people_did_is_on_the_job_s_page(operator, scene):
    (job_id,) = scene.running()
    act(operator, "cancel", [job_id], state="leased")
    page = operator.get(url("job_change", job_id)).content.decode()
    assert "Cancelled 1 job; 1 running job is told to stop." in page


def test_run_now_makes_a_delayed_job_ready(operator, scene):
    (job_id,) = scene.delayed()
    assert said(act(operator, "hasten", [job_id], state="scheduled")) == ["Made ready 1 job."]
    assert ids(scene, "ready") == {job_id}


def test_discard_asks_first_and_is_logged_as_a_deletion(operator, scene):
    (job_id,) = scene.ready(unique=a_key("k"))
    response = act(operator, "discard", [job_id], state="ready")
    assert "Discard 1 job?" in response.content.decode()
    assert ids(scene, "ready") == {job_id}
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', response.content.decode()))
    response = operator.post(reverse(ACT), fields, follow=True)
    assert said(response) == ["Discarded 1 job."]
    assert ids(scene, "ready") == set()
    assert LogEntry.objects.get().action_flag == DELETION
    assert scene.ready(unique=a_key("k"))
    assert len(ids(scene, "ready")) == 1


def test_an_action_that_comes_too_late_says_so(operator, scene):
    (job_id,) = scene.dead()
    act(operator, "retry", [job_id], state="dead")
    response = act(operator, "retry", [job_id], state="dead", from_list=1)
    assert said(response) == [
        "Retried 0 jobs; 1 job left alone (gone, undecodable or with a unique key that is taken)."
    ]


def test_an_action_that_does_not_fit_the_state_is_refused(operator, scene):
    (job_id,) = scene.running()
    response = act(operator, "discard", [job_id], state="leased", confirmed=1)
    assert said(response) == ["Discard is not possible for jobs of this state."]
    assert ids(scene, "leased") == {job_id}


@pytest.mark.parametrize("given", [{"action": "nonsense"}, {"action": "retry", "alias": "nope"}, {}])
def test_nonsense_is_told(operator, scene, given):
    response = operator.post(reverse(ACT), given, follow=True)
    assert said(response) == ["Choose an action and a known alias."]


def test_a_store_that_is_away_is_told_and_nothing_is_logged(operator, settings):
    settings.TASKS = {"default": {"BACKEND": f"{AwayBackend.__module__}.{AwayBackend.__qualname__}"}}
    response = act(operator, "retry", ["x"], state="dead", from_list=1)
    assert said(response) == ["The store of 'default' did not do it, or not all of it: no answer within 5 s."]
    response = operator.post(url("overview_queue"), {"queue": "q", "do": "pause"}, follow=True)
    assert "did not do it" in said(response)[0]
    assert not LogEntry.objects.exists()


# -- many jobs --------------------------------------------------------------------------------------------------------


def test_an_action_on_several_jobs_is_confirmed_and_logged_for_each(operator, scene):
    chosen = scene.dead(3)
    (other,) = scene.dead()
    response = act(operator, "retry", chosen, state="dead", from_list=1)
    assert "Retry 3 jobs?" in response.content.decode()
    assert len(ids(scene, "dead")) == 4
    response = act(operator, "retry", chosen, state="dead", from_list=1, confirmed=1)
    assert said(response) == ["Retried 3 jobs."]
    assert ids(scene, "dead") == {other}
    assert set(LogEntry.objects.values_list("object_id", flat=True)) == set(chosen)


def test_everything_that_matches_at_a_rate(operator, scene):
    group = Raised(failure=a_failure(fingerprint="f1"))
    scene.dead(20, outcome=group)
    others = set(scene.dead(3))
    response = act(operator, "retry", state="dead", fingerprint="f1", matching=1, from_list=1)
    assert "Retry 20 jobs?" in response.content.decode()
    assert "everything that matches" in response.content.decode()
    given = {"state": "dead", "fingerprint": "f1", "matching": 1, "from_list": 1, "confirmed": 1, "rate": "4"}
    assert said(act(operator, "retry", **given)) == ["Retried 20 jobs at 4 a second."]
    assert ids(scene, "dead") == others
    records = scene.admin.page(JobFilter(state=JobState.SCHEDULED)).records
    gaps = [later.job.run_after - earlier.job.run_after for earlier, later in pairwise(records)]
    assert len(gaps) == 18
    assert gaps == pytest.approx([0.25] * 18, abs=0.1)


def test_an_action_on_everything_is_logged_once_with_its_filter(operator, scene):
    scene.ready(3, queue="mails")
    (other,) = scene.ready()
    given = {"state": "ready", "queue": "mails", "matching": 1, "from_list": 1, "confirmed": 1}
    act(operator, "discard", **given)
    assert ids(scene, "ready") == {other}
    entry = LogEntry.objects.get()
    assert entry.object_repr == "alias 'default', state ready, queue 'mails'"
    assert entry.get_change_message() == "Discarded 3 jobs."
    assert entry.get_admin_url() is None


def test_more_than_one_action_takes_on_is_told(operator, scene, monkeypatch):
    monkeypatch.setattr(bulk, "AT_MOST", 5)
    monkeypatch.setattr(bulk.meant_by, "__defaults__", (5,))
    scene.dead(7)
    given = {"state": "dead", "matching": 1, "from_list": 1}
    assert "More match than one action takes on (5)" in act(operator, "retry", **given).content.decode()
    response = act(operator, "retry", **given, confirmed=1)
    assert said(response) == ["Retried 5 jobs. More than 5 match: repeat the action for the rest."]
    assert len(ids(scene, "dead")) == 2


@pytest.mark.parametrize("rate", ["0", "-1", "nan", "often"])
def test_a_rate_that_is_none_changes_nothing(operator, scene, rate):
    dead = scene.dead()
    response = act(operator, "retry", dead, state="dead", confirmed=1, rate=rate, from_list=1)
    assert said(response) == [
        f"The rate must be a number of jobs per second between 0.001 and 1,000,000, not '{rate}'."
    ]
    assert ids(scene, "dead") == set(dead)


@pytest.mark.parametrize(("action", "state"), [("retry", "dead"), ("cancel", "ready"), ("discard", "dead")])
def test_what_was_not_reached_in_time_is_told(operator, scene, monkeypatch, action, state):
    monkeypatch.setattr("django_vtasks.admin.acting.SECONDS", 0)
    for make in (scene.dead, scene.ready):
        make(3)
    response = act(operator, action, state=state, matching=1, from_list=1, confirmed=1)
    assert "0 jobs; 3 not reached within 0 s, repeat the action for them." in said(response)[0]
    assert len(ids(scene, state)) == 3


def test_nothing_chosen_is_told(operator, scene):
    scene.dead()
    response = act(operator, "retry", state="dead", from_list=1)
    assert said(response) == ["No job was chosen, or none matches any more."]


# -- queues and the schedule ------------------------------------------------------------------------------------------


def test_pause_and_resume(operator, scene):
    scene.ready()
    response = operator.post(url("overview_queue"), {"queue": "default", "do": "pause"}, follow=True)
    assert said(response) == ["Paused the queue 'default' of 'default': no worker claims from it until it is resumed."]
    assert scene.admin.counts()[0].paused
    operator.post(url("overview_queue"), {"queue": "default", "do": "resume"})
    assert not scene.admin.counts()[0].paused
    assert [entry.get_change_message() for entry in LogEntry.objects.order_by("id")] == [
        "Paused the queue.",
        "Resumed the queue.",
    ]


@pytest.mark.parametrize(
    "given", [{}, {"do": "nonsense"}, {"do": "pause", "queue": ""}, {"do": "pause", "alias": "no"}]
)
def test_what_is_neither_pause_nor_resume_changes_no_queue(operator, scene, given):
    scene.admin.pause("mails")
    data = {"alias": "default", "queue": "mails"} | given
    response = operator.post(reverse("admin:django_vtasks_overview_queue"), data, follow=True)
    assert said(response) == ["Choose to pause or resume a queue of a known alias."]
    assert [count.queue for count in scene.admin.counts() if count.paused] == ["mails"]
    assert LogEntry.objects.count() == 0


def test_running_a_schedule_entry_now_leaves_its_slots_alone(operator, scene, settings):
    settings.VTASKS_SCHEDULE = {
        "nightly": {"task": "tests.project.tasks.echo", "schedule": "0 3 * * *", "args": [7], "queue": "default"}
    }
    response = operator.post(url("scheduleentry_run"), {"entry": "nightly"}, follow=True)
    (record,) = scene.admin.page(JobFilter(state=JobState.READY)).records
    assert (record.job.func, record.job.args) == ("tests.project.tasks.echo", [7])
    assert said(response) == [f"Enqueued 'nightly' as the job {record.job.id}."]
    assert scene.admin.recorded_slots(["nightly"]) == {}
    assert LogEntry.objects.get().object_repr == "schedule entry nightly"


@pytest.mark.parametrize(
    ("entry", "message"),
    [("nope", "There is no schedule entry 'nope'."), ("gone", "has no task 'gone'")],
)
def test_an_entry_that_cannot_run_is_told(operator, scene, settings, entry, message):
    settings.VTASKS_SCHEDULE = {"gone": {"task": "tests.project.tasks.gone", "schedule": 60}}
    response = operator.post(url("scheduleentry_run"), {"entry": entry}, follow=True)
    assert message in said(response)[0]
    assert ids(scene, "ready") == set()


# -- retrying with other arguments ------------------------------------------------------------------------------------


def edit(client, job_id, **given):
    data = {"alias": "default", "args": "[]", "kwargs": "{}", "queue": "default"} | given
    return client.post(url("job_edit", job_id), data, follow=True)


def test_retry_with_other_arguments(operator, scene):
    (job_id,) = scene.dead(args=["old"])
    response = edit(operator, job_id, args='["new"]')
    (record,) = scene.admin.page(JobFilter(state=JobState.READY)).records
    assert (record.job.args, record.job.retry_of) == (["new"], job_id)
    assert said(response) == [f"Retried as the job {record.job.id}."]
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.get_change_message()) == (job_id, f"Retried as {record.job.id}; changed args.")


def test_what_is_hidden_is_neither_shown_nor_lost_by_an_edit(operator, scene):
    (job_id,) = scene.dead(func="shop.tasks.pay", kwargs={"amount": 1, "card": {"api_key": "hunter2"}})
    form = operator.get(url("job_edit", job_id)).content.decode()
    assert "hunter2" not in form
    edit(operator, job_id, kwargs='{"amount": 2, "card": {"api_key": "[redacted]"}}')
    (record,) = scene.admin.page(JobFilter(state=JobState.READY)).records
    assert record.job.kwargs == {"amount": 2, "card": {"api_key": "hunter2"}}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"args": "[1"}, "Not JSON"),
        ({"args": "{}"}, "must be a JSON list"),
        ({"kwargs": "[]"}, "must be a JSON object"),
        ({"args": ""}, "This field is required"),
        ({"args": '["[redacted]"]'}, "where there was no value"),
        ({"kwargs": '{"nonsense": 1}'}, "cannot be called like this"),
        ({"args": "[1, 2]"}, "cannot be called like this"),
        ({"queue": "nope"}, "There is no queue"),
    ],
)
def test_a_mistake_in_the_form_is_told_and_changes_nothing(operator, scene, given, problem):
    (job_id,) = scene.dead()
    assert problem in edit(operator, job_id, **given).content.decode()
    assert ids(scene, "dead") == {job_id}
    assert not LogEntry.objects.exists()


def test_what_is_no_dead_letter_cannot_be_edited(operator, scene):
    (job_id,) = scene.ready()
    for wrong in (job_id, "nope"):
        response = operator.get(url("job_edit", wrong), follow=True)
        assert said(response) == ["Only a dead letter whose arguments can be read can be retried with others."]


def test_an_edit_whose_unique_key_is_taken_is_told(operator, scene):
    (job_id,) = scene.dead(unique=a_key("k"))
    scene.ready(unique=a_key("k"))
    response = edit(operator, job_id)
    assert said(response) == ["It was not retried: its unique key is taken, or the letter is gone."]
    assert ids(scene, "dead") == {job_id}
