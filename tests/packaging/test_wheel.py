"""The wheel has everything the package needs at run time and nothing else; the source archive has its tests."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import django_vtasks
from tests.support.processes import ROOT

PACKAGE = ROOT / "src" / "django_vtasks"
#: What is read at run time and is not Python, with a file of each kind that must be there.
DATA = {
    "py.typed": "django_vtasks/py.typed",
    "template": "django_vtasks/templates/admin/django_vtasks/valkeytask/valkey_change_list.html",
    "static": "django_vtasks/static/django_vtasks/",
    "script": "django_vtasks/stores/valkey/scripts/",
    "migration": "django_vtasks/db/migrations/0001_initial.py",
}


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder with the wheel and the source archive of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def wheel(built):
    (file,) = built.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        yield archive


def source_files():
    """The files of the package that belong to it, as paths inside the wheel."""
    return {
        f"django_vtasks/{file.relative_to(PACKAGE).as_posix()}"
        for file in PACKAGE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel):
    packed = {name for name in wheel.namelist() if not name.endswith("/") and ".dist-info/" not in name}
    assert packed == source_files()


@pytest.mark.parametrize("kind", DATA)
def test_the_wheel_has_what_is_read_at_run_time(wheel, kind):
    assert any(name.startswith(DATA[kind]) for name in wheel.namelist())


def test_the_wheel_says_what_it_is(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    about = email.message_from_bytes(wheel.read(name))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (about["Name"], about["Version"]) == ("django-vtasks", project["version"])
    assert about["License-Expression"] == "MIT"
    assert set(about.get_all("Provides-Extra")) == set(project["optional-dependencies"])
    assert "pip install django-vtasks" in about.get_payload()
    points = wheel.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert "[pytest11]" in points


def test_the_readme_of_the_index_links_to_pages_that_exist_there(wheel):
    """Links to files of the repository are dead ends on the index's page of the project."""
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    text = email.message_from_bytes(wheel.read(name)).get_payload()
    targets = [part.partition(")")[0] for part in text.split("](")[1:]]
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    source = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    files = [target.partition("/-/blob/main/")[2] for target in targets if target.startswith(source)]
    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_the_source_archive_can_be_tested(built):
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "CHANGELOG.md", "tests/conftest.py", "docs/generate.py"} <= names
    assert source_files() <= {name.removeprefix("src/") for name in names if name.startswith("src/")}


@pytest.mark.skipif("MATRIX_ENVIRONMENT" not in os.environ, reason="only in an environment of .ci/matrix")
def test_what_is_tested_is_the_installed_wheel():
    installed = Path(os.environ["MATRIX_ENVIRONMENT"]).resolve()
    assert Path(django_vtasks.__file__).resolve().is_relative_to(installed)
