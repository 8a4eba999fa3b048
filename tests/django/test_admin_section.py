"""Everything about tasks is in one place of the admin, and the pages of the 3.2 line are where they were."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import reverse

pytestmark = pytest.mark.django_db

OLD_PAGES = ("db_queuedtask", "db_vtaskmetadata")
ROWS = (*OLD_PAGES, "db_scheduleentry")


def staff(client, *codenames):
    user = User.objects.create_user("olga", is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__in=codenames))
    client.force_login(user)
    return client


@pytest.fixture
def root(client, memory):
    client.force_login(User.objects.create_superuser("root"))
    return client


def sections(client):
    page = client.get(reverse("admin:index")).content.decode()
    return re.findall(r'class="section"[^>]*>([^<]+)<', page)


def test_the_admin_lists_one_section(root):
    assert [name.strip() for name in sections(root)].count("Tasks") == 1
    assert "Task queue" not in sections(root)
    page = root.get(reverse("admin:index")).content.decode()
    assert page.count("Schedule") == 1


@pytest.mark.parametrize("name", ROWS)
def test_pages_of_tables_are_at_their_addresses_with_the_tabs_of_the_section(root, name):
    page = root.get(reverse(f"admin:{name}_changelist")).content.decode()
    tabs = re.search(r'<nav class="vt-tabs".*?</nav>', page, re.DOTALL).group()
    assert [*re.findall(r">([A-Z][a-z ]+)</a>", tabs)] == [
        *("Overview", "Jobs", "Dead letters", "Schedule", "Rows", "Metadata"),
    ]
    assert tabs.count('aria-current="page"') == 1
    for address in re.findall(r'href="(/admin/[^"?]*)"', page):
        assert root.get(address, follow=True).status_code in (200, 405), address


def test_the_form_of_an_entry_leads_back_to_the_schedule(root):
    page = root.get(reverse("admin:db_scheduleentry_add")).content.decode()
    assert f'href="{reverse("admin:django_vtasks_scheduleentry_changelist")}"' in page
    assert re.search(r"Schedule</a>.*?Edit entries</a>.*?Add schedule entry", page, re.DOTALL)


def test_the_schedule_offers_to_add_and_edit_entries(root):
    page = root.get(reverse("admin:django_vtasks_scheduleentry_changelist")).content.decode()
    for page_name in ("add", "changelist"):
        assert f'href="{reverse(f"admin:db_scheduleentry_{page_name}")}"' in page


def test_who_may_not_add_entries_is_not_offered_to(client, memory):
    page = staff(client, "view_tasks").get(reverse("admin:django_vtasks_scheduleentry_changelist")).content.decode()
    assert "Add an entry" not in page
    assert "Edit entries" not in page


def test_tabs_are_those_that_may_be_opened(client, memory):
    page = staff(client, "view_tasks").get(reverse("admin:django_vtasks_overview_changelist")).content.decode()
    tabs = re.search(r'<nav class="vt-tabs".*?</nav>', page, re.DOTALL).group()
    assert "Rows" not in tabs
    assert "Metadata" not in tabs


def test_who_has_only_the_permissions_of_the_old_line_finds_its_pages_as_before(client, memory):
    client = staff(client, "view_queuedtask", "view_vtaskmetadata")
    page = client.get(reverse("admin:index")).content.decode()
    for name in OLD_PAGES:
        assert f'href="{reverse(f"admin:{name}_changelist")}"' in page
        listed = client.get(reverse(f"admin:{name}_changelist")).content.decode()
        assert "vt-tabs" not in listed
        for address in re.findall(r'href="(/admin/[^"?]*)"', listed):
            assert client.get(address, follow=True).status_code == 200, address
