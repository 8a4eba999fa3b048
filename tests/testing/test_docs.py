"""The sample suite of the guide runs as it is written, with both runners and in parallel; the plugin loads nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.processes import MANAGE, ROOT, process_environment

GUIDE = ROOT / "docs" / "guides" / "testing.md"
PLUGIN = "django_vtasks.testing.pytest_plugin"
MEMORY = {"default": {"BACKEND": "django_vtasks.backends.memory.MemoryTaskBackend"}}
DATABASE = {"default": {"BACKEND": "django_vtasks.backends.db.DatabaseTaskBackend"}}


def blocks(page: Path) -> dict[str, str]:
    """The code blocks of a page that have the title of a file."""
    return dict(re.findall(r'^```python title="([^"]+)"\n(.*?)^```$', page.read_text(), re.MULTILINE | re.DOTALL))


@pytest.fixture
def project(tmp_path):
    """The sample project, as a folder with an app."""
    for name, text in blocks(GUIDE).items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for package in (tmp_path / "shop", tmp_path / "shop" / "tests"):
        (package / "__init__.py").touch()
    return tmp_path


def run(folder, tasks, *command):
    """Run a command in the sample project; returns its output."""
    apps = ["django.contrib.auth", "django.contrib.contenttypes", "django_vtasks", "django_vtasks.db", "shop"]
    chosen = {"INSTALLED_APPS": apps, "TASKS": tasks, "MIDDLEWARE": [], "ROOT_URLCONF": "django_vtasks.empty_urls"}
    env = process_environment(
        PYTHONPATH=os.pathsep.join(map(str, (folder, ROOT / "src", ROOT))),
        VTASKS_TEST_SETTINGS=json.dumps(chosen),
    )
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=110, check=False
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    return output


def run_pytest(folder, tasks, *arguments):
    ours = ["-p", PLUGIN, "-p", "no:randomly", "-p", "no:cacheprovider", "-q", "--rootdir", str(folder)]
    return run(folder, tasks, "-m", "pytest", *ours, *arguments)


@pytest.mark.django_db
@pytest.mark.parametrize("snippet", re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL))
def test_the_other_snippets_run(snippet):
    exec(snippet, {})


def test_pytest_finds_the_plugin():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert declared == {PLUGIN: PLUGIN}


def test_the_guide_has_its_files():
    assert {"shop/tasks.py", "shop/orders.py", "shop/tests/test_orders.py", "shop/tests/test_with_pytest.py"} <= (
        blocks(GUIDE).keys()
    )


def test_the_sample_suite_passes_in_parallel_with_pytest_in_the_database(project):
    assert "8 passed" in run_pytest(project, DATABASE, "-n", "2", "shop")


def test_the_sample_suite_passes_with_pytest_in_memory(project):
    assert "8 passed" in run_pytest(project, MEMORY, "shop")


def test_many_tests_pass_in_parallel_with_django_in_memory(project):
    many = project / "shop" / "tests" / "test_many.py"
    many.write_text(MANY)
    output = run(project, MEMORY, str(MANAGE), "test", "shop", "--parallel", "2", "--noinput", "-v", "0")
    assert "Ran 205 tests" in output


MANY = """
from django.test import TestCase

from django_vtasks.testing import TasksMixin, VTasksTestCase
from shop.tasks import send_receipt


def a_test(number):
    def test(self):
        self.assertNotEnqueued()
        send_receipt.using(on_commit=False).enqueue(number, "A-1")
        self.assertEnqueued(send_receipt, args=[number], count=1)
        assert len(self.drain().failed) == 1

    return test


methods = {f"test_{number}": a_test(number) for number in range(50)}
for part in range(4):
    globals()[f"Many{part}"] = type(f"Many{part}", (VTasksTestCase,), dict(methods, __module__=__name__))
del part
"""

LOADED = """
import sys

def test_nothing_of_the_package_is_loaded():
    loaded = {name for name in sys.modules if name.startswith("django_vtasks.")}
    assert loaded == {"django_vtasks.testing", "django_vtasks.testing.pytest_plugin"}
"""


def test_the_plugin_loads_nothing_until_a_fixture_is_used(tmp_path):
    (tmp_path / "test_loaded.py").write_text(LOADED)
    env = process_environment(PYTHONPATH=str(ROOT / "src"))
    del env["DJANGO_SETTINGS_MODULE"]
    plain = ["-p", PLUGIN, "-p", "no:django", "-p", "no:cacheprovider", "-q", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, "test_loaded.py"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
