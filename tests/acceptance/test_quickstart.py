"""The quick start and the README, pasted line by line into a project that `startproject` made."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.processes import ROOT, ManagedProcess, process_environment

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

QUICKSTART = ROOT / "docs" / "quickstart.md"
README = ROOT / "README.md"
COMMAND = re.compile(r"^\$ python manage\.py (.*?)(?: +#.*)?$", re.MULTILINE)


def python_blocks(page):
    """The Python of a page, in its order."""
    return re.findall(r"^```python.*?\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


class Project:
    """What a newcomer has: a project, an app, a shell."""

    def __init__(self, folder):
        self.folder = folder
        self.env = process_environment(PYTHONPATH=str(ROOT / "src"))
        del self.env["DJANGO_SETTINGS_MODULE"]
        self.run("-m", "django", "startproject", "mysite", str(folder))
        self.run("manage.py", "startapp", "myapp")

    def run(self, *arguments, text=None):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.env,
            input=text,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def paste_settings(self, block):
        """As a person would: the apps into the list that is there, the rest at the end."""
        file = self.folder / "mysite" / "settings.py"
        listed, rest = re.fullmatch(r"(?s).*?INSTALLED_APPS = \[\n.*?# \.\.\.\n(.*?)\](.*)", block).groups()
        listed += "" if '"myapp"' in listed else '    "myapp",\n'
        text = file.read_text().replace("INSTALLED_APPS = [\n", f"INSTALLED_APPS = [\n{listed}")
        file.write_text(text + rest)

    def paste_tasks(self, block):
        (self.folder / "myapp" / "tasks.py").write_text(block)

    def worker(self, arguments):
        return _Worker(self, arguments)

    def shell(self, code):
        return self.run("manage.py", "shell", "--verbosity", "0", text=code)


class _Worker(ManagedProcess):
    def __init__(self, project, arguments):
        super().__init__(*arguments.split())
        self.project = project

    def start(self):
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", *self.arguments],
                cwd=self.project.folder,
                env=self.project.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_the_quick_start_leads_to_a_result(project):
    settings, tasks, enqueue = python_blocks(QUICKSTART)
    startapp, migrate, start, *rest = [line for line in COMMAND.findall(QUICKSTART.read_text()) if line != "shell"]
    assert startapp == "startapp myapp"
    project.paste_settings(settings)
    project.paste_tasks(tasks)
    project.run("manage.py", *migrate.split())
    with project.worker(start) as worker:
        worker.wait_for_log("Worker .* starts")
        said = project.shell(f"{enqueue}\nprint(result.status, result.return_value)\nprint('ID', result.id)\n")
        assert "SUCCESSFUL 5" in said
        job_id = re.search(r"ID (\S+)", said)[1]
        for line in rest:
            project.run("manage.py", *line.replace("ID", job_id).split())
        assert worker.terminate() == 0
        assert re.search(rf"myapp\.tasks\.add \({job_id}, .* succeeded", worker.log_text())


def test_the_readme_leads_to_a_result(project):
    settings, tasks, enqueue, valkey = python_blocks(README)
    migrate, start = COMMAND.findall(README.read_text())
    project.paste_settings(settings.removeprefix("# settings.py\n"))
    project.paste_tasks(tasks)
    project.run("manage.py", *migrate.split())
    project.shell(f"from myapp.tasks import greet\n{enqueue}")
    project.run("manage.py", *start.split(), "--drain", "--exit-empty", "3", "--exit-failed", "4")
    assert "ValkeyTaskBackend" in valkey
