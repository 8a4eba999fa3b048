"""The admin's pages in a real browser: alive, on a phone, in the dark, without scripts, under a strict policy."""

from __future__ import annotations

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.test import Client
from django.test.utils import override_settings
from django.urls import reverse
from pytest_django.live_server_helper import LiveServer
from selenium.webdriver.common.by import By

from django_vtasks.framework import task_backends
from django_vtasks.jobs.model import JobState
from django_vtasks.jobs.outcomes import Succeeded
from django_vtasks.stores.base import JobFilter
from tests.support import browser as chromium
from tests.support.operators import AwayBackend, Scene
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser

MEMORY = "tests.support.backends.MemoryBackend"
AWAY = f"{AwayBackend.__module__}.{AwayBackend.__qualname__}"
PAGES = ("overview_changelist", "job_changelist", "deadletter_changelist", "scheduleentry_changelist")

TEXTS = ", ".join(
    f".vt {one}"
    for one in (
        *("td", "th", "dd", "dt", "h3", "label", "small", ".vt-note", ".vt-badge", ".vt-button", ".vt-quiet"),
        *(".vt-json", ".vt-tabs a", ".vt-states a", ".vt-tiles strong", ".vt-tiles span"),
    )
)

READABLE = 4.5
"""The least contrast of small text that WCAG calls readable (AA)."""


class StrictPolicy:
    """A middleware that allows the site's own files and nothing inline."""

    def __init__(self, get_response):
        self._get_response = get_response

    def __call__(self, request):
        response = self._get_response(request)
        response["Content-Security-Policy"] = "default-src 'self'; img-src 'self' data:"
        return response


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    with chromium.browser(tmp_path_factory.mktemp("chromium")) as one:
        yield one


@pytest.fixture(scope="module")
def server(django_db_setup):
    """The address of a running site; what it answers carries the policy."""
    policy = f"{StrictPolicy.__module__}.{StrictPolicy.__qualname__}"
    with override_settings(MIDDLEWARE=[*django_settings.MIDDLEWARE, policy]):
        running = LiveServer("localhost")
        yield running.url
        running.stop()


@pytest.fixture
def site(settings, transactional_db, server, window):
    """The address of a running site, and a browser that is logged in."""
    settings.TASKS = {"default": {"BACKEND": MEMORY, "QUEUES": []}}
    settings.VTASKS_SCHEDULE = {"nightly": {"task": "tests.project.tasks.echo", "schedule": "0 3 * * *"}}
    user = User.objects.create_superuser("ada")
    client = Client()
    client.force_login(user)
    window.show()
    window.driver.get(f"{server}/admin/login/")
    window.driver.add_cookie({"name": "sessionid", "value": client.cookies["sessionid"].value, "path": "/"})
    window.complaints()
    return server


@pytest.fixture
def scene(site):
    made = Scene(task_backends["default"].client_store)
    made.announce(queues=("default",), running=1)
    made.running(progress=(40, 100))
    made.ready(3, queue="mails-to-all-the-customers-of-the-shop", args=["x" * 300])
    made.delayed(2)
    made.dead(3, func="shop.a_package_with_a_long_name.tasks.a_function_with_a_long_name")
    made.succeeded(2)
    made.admin.pause("imports")
    return made


def open_page(window, site, name, *args, query=""):
    window.driver.get(site + reverse(f"admin:django_vtasks_{name}", args=args) + query)


def body(window):
    return window.driver.find_element(By.ID, "content-main").text


def every_page(scene):
    (dead, *_) = scene.admin.page(JobFilter(state=JobState.DEAD)).records
    (running, *_) = scene.admin.page(JobFilter(state=JobState.LEASED)).records
    states = [("job_changelist", (), f"?state={state}") for state in ("scheduled", "leased", "succeeded")]
    jobs = [("job_change", (record.job.id,), "") for record in (dead, running)]
    return [*((page, (), "") for page in PAGES), *states, *jobs, ("job_edit", (dead.job.id,), "")]


def test_pages_complain_about_nothing_under_a_strict_policy(window, site, scene):
    for name, args, query in every_page(scene):
        open_page(window, site, name, *args, query=query)
        assert window.complaints() == [], name


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_readable_in_both_themes(window, site, scene, settings, theme):
    settings.TASKS = {**settings.TASKS, "away": {"BACKEND": AWAY}}
    scene = Scene(task_backends["default"].client_store)
    scene.announce()
    scene.running(progress=(1, 2))
    scene.ready(2, queue="mails")
    scene.dead(2)
    scene.admin.pause("imports")
    window.show(theme=theme)
    for name, args, query in every_page(scene):
        open_page(window, site, name, *args, query=query)
        measured = window.contrasts(TEXTS)
        assert len(measured) > 5
        assert [one for one in measured if one[1] < READABLE] == [], name


def test_pages_fit_on_a_phone(window, site, scene):
    window.show(size=chromium.PHONE)
    for name, args, query in every_page(scene):
        open_page(window, site, name, *args, query=query)
        assert window.overflow() <= 0, name


def test_the_overview_refreshes_itself(window, site, scene):
    open_page(window, site, "overview_changelist")
    assert "Ready\n3" in body(window)
    scene.ready(4, queue="imports")
    eventually(lambda: "Ready\n7" in body(window))
    assert "live" in body(window)
    assert window.complaints() == []


def test_a_part_that_is_in_use_is_not_replaced(window, site, scene):
    open_page(window, site, "overview_changelist")
    button = window.driver.find_element(By.CSS_SELECTOR, "button[name=do]")
    window.driver.execute_script("arguments[0].focus(); window.button = arguments[0]", button)
    scene.ready(4, queue="imports")
    asked = "return performance.getEntriesByType('resource').filter((one) => one.name.includes('/live/')).length"
    eventually(lambda: window.driver.execute_script(asked) > 1)
    assert window.driver.execute_script("return document.body.contains(window.button)")
    window.driver.execute_script("window.button.blur()")
    eventually(lambda: "Ready\n7" in body(window))


def test_the_page_of_a_job_follows_it_to_its_end(window, site, scene):
    (job_id,) = scene.running(progress=(25, 100))
    open_page(window, site, "job_change", job_id)
    assert "25 %" in body(window)
    scene.end(job_id, Succeeded(value=b'"thumbnails"'))
    eventually(lambda: "It succeeded" in body(window) and "thumbnails" in body(window))
    eventually(lambda: "finished" in body(window))


def test_a_site_that_does_not_answer_is_told(window, site, scene):
    open_page(window, site, "overview_changelist")
    window.driver.delete_all_cookies()
    eventually(lambda: "not refreshed" in body(window))


def test_select_all_selects_all_on_the_page(window, site, scene):
    open_page(window, site, "deadletter_changelist")
    window.driver.find_element(By.CSS_SELECTOR, "[data-select-all] input").click()
    boxes = window.driver.find_elements(By.CSS_SELECTOR, "input[name=id]")
    assert [box.is_selected() for box in boxes] == [True] * 3
    boxes[0].click()
    assert not window.driver.find_element(By.CSS_SELECTOR, "[data-select-all] input").is_selected()


def test_everything_works_without_scripts(window, site, scene):
    window.show(scripts=False)
    open_page(window, site, "overview_changelist")
    window.follow("button[aria-label='Resume imports']")
    assert "Resumed the queue" in window.driver.find_element(By.CLASS_NAME, "messagelist").text
    open_page(window, site, "deadletter_changelist")
    for box in window.driver.find_elements(By.CSS_SELECTOR, "input[name=id]")[:2]:
        box.click()
    window.follow("button[value=retry]")
    assert "Retry 2 jobs?" in body(window)
    window.follow("form[action*='/act/'] button")
    assert "Retried 2 jobs." in window.driver.find_element(By.CLASS_NAME, "messagelist").text
    assert len(scene.admin.page(JobFilter(state=JobState.DEAD)).records) == 1


def test_what_is_stuck_and_why_takes_two_clicks(window, site, scene):
    open_page(window, site, "overview_changelist")
    finding = window.driver.find_element(By.CSS_SELECTOR, ".vt-findings .vt-error")
    assert "No live worker serves the queue 'mails-to-all-the-customers-of-the-shop'" in finding.text
    window.follow(".vt-findings .vt-error a")
    window.follow(".vt-job a")
    assert "WHY IT IS NOT RUNNING" in body(window)
    assert "No live worker serves the queue" in body(window)
