"""What the admin's pages show: every page for every state, nothing secret, and what is wrong when a store is away."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.urls import reverse
from django.utils.http import urlencode

from django_vtasks.framework import task_backends
from django_vtasks.jobs.model import JobState
from django_vtasks.jobs.outcomes import Raised
from django_vtasks.stores.base import JobFilter, Page, Redrive
from tests.support.builders import a_failure, a_job, a_key
from tests.support.operators import AwayBackend, Scene

pytestmark = pytest.mark.django_db

AWAY = f"{AwayBackend.__module__}.{AwayBackend.__qualname__}"
PAGES = ("overview_changelist", "job_changelist", "deadletter_changelist", "scheduleentry_changelist")


@pytest.fixture
def scene(memory):
    return Scene(memory)


@pytest.fixture
def operator(client):
    """A client of somebody on the staff who may only look."""
    user = User.objects.create_user("olga", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_tasks"))
    client.force_login(user)
    return client


def url(name, *args, **query):
    return reverse(f"admin:django_vtasks_{name}", args=args) + (f"?{urlencode(query)}" if query else "")


def text_of(response):
    """What a reader sees: without tags, white space as one space."""
    assert response.status_code == 200
    content = re.sub(r"<(script|style)\b.*?</\1>", " ", response.content.decode(), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", content).split())


# -- who may look -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, "overview_live"])
def test_pages_are_closed_to_everybody_without_the_permission(client, scene, page):
    assert client.get(url(page)).status_code == 302
    client.force_login(User.objects.create_user("vera", is_staff=True))
    assert client.get(url(page)).status_code == 403


def test_the_permission_alone_does_not_open_them_to_others_than_staff(client, scene):
    user = User.objects.create_user("walter")
    user.user_permissions.add(Permission.objects.get(codename="view_tasks"))
    client.force_login(user)
    assert client.get(url("overview_changelist")).status_code == 302


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_open_with_the_permission(operator, scene, page):
    assert operator.get(url(page)).status_code == 200


def test_the_app_list_has_the_pages_for_who_may_see_them(client, operator, scene):
    index = text_of(operator.get(reverse("admin:index")))
    for name in ("Tasks", "Overview", "Jobs", "Dead letters", "Schedule"):
        assert name in index
    client.force_login(User.objects.create_user("vera", is_staff=True))
    assert "Dead letters" not in text_of(client.get(reverse("admin:index")))


def test_looking_alone_offers_no_action(operator, scene):
    scene.ready()
    (dead,) = scene.dead()
    addresses = [url(page) for page in PAGES] + [url("job_change", dead)]
    for address in addresses:
        content = operator.get(address).content.decode()
        forms = re.findall(r'<form[^>]*method="post"[^>]*action="([^"]*)"', content)
        assert set(forms) <= {reverse("admin:logout"), url("job_act")}
        assert not re.findall(r'name="(?:action|do|entry)"', content), address


# -- overview ---------------------------------------------------------------------------------------------------------


def test_the_overview_answers_what_is_stuck_and_why(operator, scene):
    scene.ready(3, queue="mails")
    scene.delayed(2, queue="mails")
    scene.ready(1, queue="imports")
    scene.admin.pause("imports")
    scene.dead(2)
    scene.announce(queues=("default",), running=0)
    text = text_of(operator.get(url("overview_changelist")))
    assert "No live worker serves the queue &#x27;mails&#x27;: 5 jobs wait in &#x27;mails&#x27;." in text
    assert "The queue &#x27;imports&#x27; is paused; 1 ready job waits." in text
    assert "2 dead letters: ValueError in tests.project.tasks.echo" in text
    assert "mails 3 2 0 0" in text


def test_a_finding_is_one_click_from_the_jobs_it_is_about(operator, scene):
    (job_id,) = scene.ready(queue="mails")
    content = operator.get(url("overview_changelist")).content.decode()
    link = url("job_changelist", alias="default", state="ready", queue="mails").replace("&", "&amp;")
    assert link in content
    page = operator.get(link.replace("&amp;", "&")).content.decode()
    assert url("job_change", job_id, alias="default") in page
    assert "No worker is running." in text_of(operator.get(url("job_change", job_id)))


def test_the_overview_shows_workers_and_what_they_run(operator, scene):
    scene.announce(queues=("default", "mails"), running=1)
    (job_id,) = scene.running()
    response = operator.get(url("overview_changelist"))
    assert "worker-1 host-1, pid 4711 4.0 default, mails 1 of 4 echo" in text_of(response)
    assert url("job_change", job_id, alias="default") in response.content.decode()


def test_the_live_part_is_the_same_html(operator, scene):
    scene.ready(3)
    answer = operator.get(url("overview_live"))
    assert "no-store" in answer["Cache-Control"]
    assert ">3</a>" in answer.json()["html"]


def test_a_store_that_is_away_is_told_on_every_page(settings, operator):
    settings.TASKS = {"default": {"BACKEND": AWAY}}
    for page in PAGES:
        assert "no answer within 5 s" in text_of(operator.get(url(page)))
    assert "no answer within 5 s" in text_of(operator.get(url("job_change", "x")))
    assert operator.get(url("job_live", "x")).status_code == 503


def test_other_aliases_are_shown_beside_one_that_is_away(settings, operator, scene):
    settings.TASKS = {"away": {"BACKEND": AWAY}, **settings.TASKS}
    Scene(task_backends["default"].client_store).ready(3)
    text = text_of(operator.get(url("overview_changelist")))
    assert "no answer within 5 s" in text
    assert "default 3 0 0 0" in text


def test_without_an_alias_that_keeps_jobs_the_pages_say_so(settings, operator):
    settings.TASKS = {"default": {"BACKEND": "django_vtasks.backends.immediate.ImmediateBackend"}}
    for page in PAGES:
        assert "TASKS has no" in text_of(operator.get(url(page)))


# -- lists ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["ready", "scheduled", "leased", "succeeded"])
def test_jobs_are_listed_by_state(operator, scene, state):
    made = {
        "succeeded": scene.succeeded(),
        "leased": scene.running(),
        "ready": scene.ready(),
        "scheduled": scene.delayed(),
    }
    content = operator.get(url("job_changelist", state=state)).content.decode()
    shown = {name for name, ids in made.items() if ids[0] in content}
    assert shown == {state}


@pytest.mark.parametrize(
    "query",
    [
        {"queue": "mails"},
        {"func": "shop.tasks.mail"},
        {"q": "anna@"},
        {"queue": "mails", "func": "shop.tasks.mail", "q": "anna@"},
    ],
)
def test_jobs_are_filtered(operator, scene, query):
    (wanted,) = scene.ready(queue="mails", func="shop.tasks.mail", args=["anna@example.com"])
    (other,) = scene.ready()
    content = operator.get(url("job_changelist", **query)).content.decode()
    assert wanted in content
    assert other not in content


def test_every_job_is_met_once_page_by_page(operator, scene):
    ids = scene.ready(120)
    met: list[str] = []
    address = url("job_changelist")
    while address:
        content = operator.get(address).content.decode()
        met += re.findall(r"<small>(\w{32})</small>", content)
        following = re.search(r'href="([^"]+)" rel="next"', content)
        address = following and following[1].replace("&amp;", "&")
    assert met == ids


def test_a_page_without_a_match_leads_on_when_the_store_has_looked_at_a_part_only(operator, scene, monkeypatch):
    monkeypatch.setattr(type(scene.admin), "page", lambda *_args, **_kwargs: Page(records=(), next_cursor="17"))
    content = operator.get(url("job_changelist", q="rare")).content.decode()
    assert "there are more" in content
    assert url("job_changelist", alias="default", state="ready", q="rare", after="17").replace("&", "&amp;") in content


def test_a_place_in_a_list_that_is_nonsense_is_no_error(operator, scene):
    scene.ready()
    assert "no place in this list; start from its first page" in text_of(
        operator.get(url("job_changelist", after="nonsense"))
    )


@pytest.mark.parametrize("query", [{"state": "nonsense"}, {"alias": "nope"}, {"reason": "nonsense", "state": "dead"}])
def test_nonsense_in_the_address_is_no_error(operator, scene, query):
    assert operator.get(url("job_changelist", **query), follow=True).status_code == 200


def test_dead_letters_are_grouped_by_cause(operator, scene):
    alike = Raised(failure=a_failure("no such customer", fingerprint="f1"))
    scene.dead(3, outcome=alike)
    (other,) = scene.dead(outcome=Raised(failure=a_failure("timeout", fingerprint="f2")))
    response = operator.get(url("deadletter_changelist"))
    assert "3 ValueError no such customer tests.project.tasks.echo" in text_of(response)
    group = url("deadletter_changelist", alias="default", fingerprint="f1")
    assert group.replace("&", "&amp;") in response.content.decode()
    letters = operator.get(group).content.decode()
    assert len(re.findall(r"<small>(\w{32})</small>", letters)) == 3
    assert other not in letters


def test_dead_letters_of_one_reason(operator, scene):
    (job_id,) = scene.dead()
    assert job_id in operator.get(url("deadletter_changelist", reason="failed")).content.decode()
    assert job_id not in operator.get(url("deadletter_changelist", reason="expired")).content.decode()


# -- one job ----------------------------------------------------------------------------------------------------------


def test_the_page_of_a_dead_letter_has_its_history(operator, scene):
    (job_id,) = scene.dead(args=[1, "two"], kwargs={"three": 3}, unique=a_key("k"))
    text = text_of(operator.get(url("job_change", job_id)))
    for part in (
        "it failed after 1 attempt with ValueError: boom",
        "[ 1, &quot;two&quot; ]",
        "{ &quot;three&quot;: 3 }",
        "Traceback (most recent call last)",
        "1 raised",
        "worker-1-abcd",
        "k (until_done)",
    ):
        assert part in text


def test_the_page_of_a_running_job_has_its_progress(operator, scene):
    scene.announce()
    (job_id,) = scene.running(progress=(25, 100))
    response = operator.get(url("job_change", job_id))
    assert "It is running on worker worker-1 (host host-1, pid 4711)" in text_of(response)
    assert "25 %" in text_of(response)
    assert f'data-live="{url("job_live", job_id, alias="default")}"' in response.content.decode()
    live = operator.get(url("job_live", job_id)).json()
    assert "25 %" in live["html"]
    assert live["done"] is False


def test_the_page_of_a_finished_job_has_its_value_and_is_not_refreshed(operator, scene):
    (job_id,) = scene.succeeded(value=b'{"thumbnails": 3}')
    response = operator.get(url("job_change", job_id))
    assert "thumbnails" in text_of(response)
    assert "data-live=" not in response.content.decode()
    assert operator.get(url("job_live", job_id)).json()["done"] is True


def test_a_retried_job_and_the_old_one_are_linked(operator, scene):
    (old,) = scene.dead()
    (added,) = scene.admin.redrive([old], Redrive())
    assert url("job_change", old, alias="default") in operator.get(url("job_change", added.job_id)).content.decode()


def test_an_unknown_job_is_told_and_leads_to_the_list(operator, scene):
    response = operator.get(url("job_change", "nope"), follow=True)
    assert response.redirect_chain == [(url("job_changelist"), 302)]
    assert "Nothing is known of the job &#x27;nope&#x27;" in text_of(response)
    assert operator.get(url("job_live", "nope")).status_code == 404


def test_an_id_with_characters_of_an_address_works(operator, scene):
    job_id = "a/b?c=d&e #ä"
    scene.client.add([a_job(id=job_id)])
    assert "a/b?c=d&amp;e #ä" in text_of(operator.get(url("job_change", quote(job_id))))


def test_an_undecodable_letter_has_a_page_and_its_bytes_are_for_editors(client, operator, scene):
    scene.client._state.inject("default", b"\xff<b>no job</b>")
    scene.claim_and_end("default", Raised(failure=a_failure()))
    (record,) = scene.admin.page(JobFilter(state=JobState.DEAD)).records
    address = url("job_change", record.job.id)
    assert "no job" not in operator.get(address).content.decode().replace("bytes are not a job", "")
    user = User.objects.get(username="olga")
    user.user_permissions.add(Permission.objects.get(codename="edit_tasks"))
    content = client.get(address).content.decode()
    assert "\\xff&lt;b&gt;no job&lt;/b&gt;" in content


# -- nothing secret, nothing executable -------------------------------------------------------------------------------


def test_nothing_secret_is_shown_anywhere(operator, scene):
    secrets = {"password": "hunter2", "nested": {"api_key": "hunter2", "plain": "visible"}}
    for make in (scene.succeeded, scene.dead, scene.running, scene.ready):
        make(kwargs=secrets)
    (job_id,) = scene.dead(kwargs=secrets)
    addresses = [url("job_changelist", state=state) for state in ("ready", "leased", "succeeded")]
    addresses += [url("deadletter_changelist"), url("job_change", job_id), url("overview_changelist")]
    for address in addresses:
        content = operator.get(address).content.decode()
        assert "hunter2" not in content
    assert "visible" in operator.get(url("job_change", job_id)).content.decode()


def test_what_a_job_says_is_escaped(operator, scene):
    evil = "<script>alert(1)</script>"
    failing = Raised(failure=a_failure(evil, exception_class=evil, fingerprint=evil, traceback=evil))
    (job_id,) = scene.dead(args=[evil], outcome=failing, queue=evil, func=evil)
    scene.announce(worker_id=evil, queues=(evil,))
    addresses = [url("job_change", job_id), url("deadletter_changelist"), url("overview_changelist")]
    for address in [*addresses, url("deadletter_changelist", queue=evil, q=evil, fingerprint=evil)]:
        assert evil not in operator.get(address).content.decode()


def test_pages_have_no_inline_script_or_style(operator, scene):
    scene.announce()
    scene.running(progress=(1, 2))
    (dead,) = scene.dead()
    for address in [*map(url, PAGES), url("job_change", dead)]:
        content = operator.get(address).content.decode()
        own = content[content.index('id="content-main"') :]
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", own)
        assert not re.search(r'(?:src|href)="https?://', content)


# -- models without tables --------------------------------------------------------------------------------------------


def test_the_models_without_tables_disturb_nobody():
    out = StringIO()
    call_command("dumpdata", "django_vtasks", stdout=out)
    assert out.getvalue().strip() == "[]"
    call_command("makemigrations", "--check", "--dry-run", stdout=out)


# -- the schedule -----------------------------------------------------------------------------------------------------


def test_the_schedule_shows_entries_and_what_is_wrong_with_them(settings, operator, scene):
    settings.VTASKS_SCHEDULE = {
        "nightly": {"task": "tests.project.tasks.echo", "schedule": "0 3 * * *", "description": "Close the books"},
        "gone": {"task": "tests.project.tasks.gone", "schedule": 60},
        "broken": {"task": "tests.project.tasks.echo", "schedule": "77 * * * *"},
    }
    text = text_of(operator.get(url("scheduleentry_changelist")))
    assert "nightly Close the books echo tests.project.tasks 0 3 * * * UTC" in text
    assert "has no task &#x27;gone&#x27;" in text
    assert "Bad minute" in text
