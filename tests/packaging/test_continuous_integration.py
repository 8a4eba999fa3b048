"""The matrix of versions and the workflow of forks agree with each other and with pyproject.toml."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from tests.support.processes import ROOT
from tests.support.servers import MariaDBServer, PostgresServer, RedisServer, ValkeyServer

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _matrix():
    loader = importlib.machinery.SourceFileLoader("ci_matrix", str(ROOT / ".ci" / "matrix"))
    spec = importlib.util.spec_from_loader("ci_matrix", loader)
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules["ci_matrix"] = module
    dont_write, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = dont_write
    return module


matrix = _matrix()


def jobs():
    """Every job of every workflow."""
    for file in WORKFLOWS:
        for name, job in yaml.safe_load(file.read_text())["jobs"].items():
            yield pytest.param(job, id=f"{file.stem}:{name}")


def commands(job):
    return "\n".join(step["run"] for step in job["steps"] if "run" in step)


def test_every_promised_version_is_in_the_matrix():
    said = {line.rpartition(" :: ")[2] for line in PROJECT["classifiers"]}
    versions = {text for text in said if re.fullmatch(r"\d\.\d+", text)}
    rows = {row.python.removesuffix("t") for row in matrix.ROWS} | {row.django for row in matrix.ROWS}
    assert versions - {"3"} == rows


def test_both_other_lines_of_django_and_the_lower_bounds_are_tested_on_every_change():
    quick = [row for row in matrix.ROWS if row.quick]
    assert {row.django for row in quick} >= {"5.2", "6.0"}
    assert any(row.oldest for row in quick)
    assert ".ci/matrix --quick" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize(
    ("requirement", "oldest"),
    [
        ("cronsim>=2.7", "cronsim==2.7.*"),
        ("django-tasks>=0.12,<1", "django-tasks==0.12.*"),
        ("psycopg[binary,pool]>=3.2", "psycopg[binary,pool]==3.2.*"),
        ('backports.zstd>=1.0; python_version < "3.14"', 'backports.zstd==1.0.*; python_version < "3.14"'),
    ],
)
def test_the_oldest_of_a_dependency_is_its_lower_bound(requirement, oldest):
    assert matrix.lower_bound(requirement) == oldest


def test_every_dependency_has_a_lower_bound_that_can_be_tested():
    lines = [
        *PROJECT["dependencies"],
        *(line for extra in PROJECT["optional-dependencies"].values() for line in extra),
    ]
    assert [line for line in lines if matrix.lower_bound(line) == line] == []


def test_a_free_threaded_row_asks_for_nothing_that_has_no_build_there():
    rows = {row.python: matrix.requirements(row) for row in matrix.ROWS if row.django == "6.1"}
    psycopg = {python: [line for line in lines if line.startswith("psycopg")] for python, lines in rows.items()}
    assert psycopg["3.14t"] == []
    assert psycopg["3.14"]


def test_a_missing_interpreter_is_named(tmp_path):
    program = (ROOT / ".ci" / "matrix").read_text().replace('python="3.14t"', 'python="9.9"')
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "matrix").write_text(program)
    done = subprocess.run(
        [sys.executable, str(tmp_path / ".ci" / "matrix"), "--list", "--only", "py9.9-django6.1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert re.fullmatch(r"py9\.9-django6\.1 +MISSING\n", done.stdout)


def test_there_is_a_workflow():
    assert WORKFLOWS


@pytest.mark.parametrize("job", list(jobs()))
def test_a_job_of_a_workflow_can_be_run(job):
    assert job["runs-on"].startswith("ubuntu-")
    assert 0 < job["timeout-minutes"] <= 60
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step), step
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])
    programs = re.findall(r"(?:^|\s)(\.ci/[\w-]+)", commands(job))
    assert programs
    assert [program for program in programs if not (ROOT / program).exists()] == []


def test_the_workflow_runs_every_row_of_the_matrix():
    (job,) = (param.values[0] for param in jobs() if ".ci/matrix" in commands(param.values[0]))
    rows = job["strategy"]["matrix"]["row"]
    assert sorted(rows) == sorted(row.name for row in matrix.ROWS)
    assert "--strict --only ${{ matrix.row }}" in commands(job)


def test_the_workflow_has_the_servers_that_tests_ask_for():
    (job,) = (param.values[0] for param in jobs() if "services" in param.values[0])
    assert {"postgres", "valkey", "mysql"} <= set(job["services"])
    kinds = {image.partition(":")[0] for images in job["strategy"]["matrix"]["include"] for image in images.values()}
    assert kinds == {"postgres", "valkey/valkey", "mariadb", "mysql"}
    servers = (PostgresServer, ValkeyServer, RedisServer, MariaDBServer)
    assert {server.variable for server in servers} >= set(job["env"]) - {"CI"} != set()
    for name, service in job["services"].items():
        (port,) = service["ports"]
        assert any(f":{port.partition(':')[0]}/" in str(url) for url in job["env"].values()), name
