"""django-debug-toolbar shows the jobs that a request enqueued, and its other panels work beside our backends."""

from __future__ import annotations

import pytest

from tests.integrations.project import Project, package

package("debug_toolbar")
pytestmark = pytest.mark.acceptance

SETTINGS = """
DEBUG = True
INSTALLED_APPS += ["debug_toolbar"]
MIDDLEWARE.insert(0, "debug_toolbar.middleware.DebugToolbarMiddleware")
DEBUG_TOOLBAR_CONFIG = {"SHOW_TOOLBAR_CALLBACK": "urls.always"}
"""
URLS = """
from asgiref.sync import sync_to_async
from debug_toolbar.toolbar import debug_toolbar_urls
from django.db import transaction
from django.http import HttpResponse
from django.urls import path
from jobs import add


def always(request):
    return True


def page(request):
    with transaction.atomic():
        add.enqueue(1, b=2)
    add.using(priority=7).enqueue(3, 4)
    return HttpResponse("<html><body></body></html>")


async def async_page(request):
    await add.aenqueue(5, 6)
    return HttpResponse("<html><body></body></html>")


urlpatterns = [path("page/", page), path("async/", async_page), *debug_toolbar_urls()]
"""
JOBS = """
from django_vtasks import task


@task
def add(a, b):
    return a + b
"""
LOOK = """
import asyncio, re, sys
from django.test import AsyncClient, Client

def panel(html, name):
    request = re.search('data-request-id="([^"]+)"', html)[1]
    got = Client().get("/__debug__/render_panel/", {"request_id": request, "panel_id": name})
    assert got.status_code == 200, got.status_code
    return got.json()["content"]
"""


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path, settings=SETTINGS, urls=URLS, jobs=JOBS)
    made.manage("migrate", "--verbosity", "0")
    return made


def test_the_panel_shows_what_a_request_enqueued(project):
    shown = project.python(
        LOOK + "html = Client().get('/page/').text\nprint('2 tasks' in html)\nprint(panel(html, 'TasksPanel'))\n"
    )
    assert shown.startswith("True")
    assert shown.count("jobs.add") == 2
    assert "<td>7</td>" in shown
    assert "READY" in shown


def test_the_panel_shows_what_an_async_view_enqueued(project):
    shown = project.python(
        LOOK + "html = asyncio.run(AsyncClient().get('/async/')).text\nprint(panel(html, 'TasksPanel'))\n"
    )
    assert shown.count("jobs.add") == 1


def test_the_panel_of_queries_shows_the_inserts_and_the_worker_runs_the_jobs(project):
    shown = project.python(LOOK + "print(panel(Client().get('/page/').text, 'SQLPanel'))\n")
    assert "db_queuedtask" in shown
    assert project.work().count("succeeded") == 2
