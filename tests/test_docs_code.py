"""What the documentation shows is executed: its Python, its commands, the files it deploys."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import logging.config
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from django.core.checks import run_checks
from django.core.management import load_command_class

from django_vtasks import task
from django_vtasks.framework import task_backends
from django_vtasks.testing import adrain, drain
from tests.test_docs import BLOCK, DOCS, PAGES, ROOT

MEMORY = {"default": {"BACKEND": "django_vtasks.backends.memory.MemoryTaskBackend", "QUEUES": []}}
#: Pages that are run as a whole, by tests of their own.
ELSEWHERE = {"quickstart.md", "README.md", "guides/testing.md", "upgrading/from-celery.md"}
PYTHON_PAGES = sorted(
    name
    for page in PAGES
    if "```python" in page.read_text()
    and (name := str(page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT))) not in ELSEWHERE
)
OWN = {file.stem for file in (ROOT / "src/django_vtasks/management/commands").glob("[!_]*.py")}
#: Named in the prose; each call of them has one word more.
GROUPS = (["vtasks"], ["vtasks", "dlq"])

# -- Python -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def app(monkeypatch):
    """The reader's own `app.tasks`, with the tasks that pages name."""
    package, module = ModuleType("app"), ModuleType("app.tasks")
    package.tasks = module
    monkeypatch.setitem(sys.modules, "app", package)
    monkeypatch.setitem(sys.modules, "app.tasks", module)
    for name in ("beat", "cleanup", "report", "digest"):
        exec(f"def {name}(kind=None): ...", module.__dict__)
        setattr(module, name, task(getattr(module, name)))
    return module


@pytest.fixture
def page_module(monkeypatch, tmp_path):
    """The module in which a page's code runs; what a reader has anyway is there."""
    module = ModuleType("page_of_the_docs")
    module.__dict__.update(BASE_DIR=tmp_path, order_ids=[1, 2], rows=[1, 2], save=lambda value: None, task=task)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def python_of(page):
    """The statements of a page's Python, definitions of tasks first: prose may show their use before them."""
    found = [
        "".join(part.removeprefix(block[1]) for part in block[3].splitlines(keepends=True))
        for block in BLOCK.finditer(page.read_text())
        if block[2] == "python"
    ]
    for block in sorted(found, key=lambda block: "@task" not in block and "VTASKS_QUEUES" not in block):
        yield from ast.parse(block).body


def run_statement(statement, namespace):
    """As the prompt of `manage.py shell` would; `raise` is expected to raise what it names."""
    code = compile(ast.Module([statement], []), "docs", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if isinstance(statement, ast.Raise):
        with pytest.raises(namespace[statement.exc.func.id]):
            exec(code, namespace)
    elif code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(_awaited(code, namespace))
    else:
        exec(code, namespace)
        drain(delayed=True)


async def _awaited(code, namespace):
    await eval(code, namespace)
    await adrain(delayed=True)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", PYTHON_PAGES)
def test_the_python_of_a_page_runs(name, page_module, app, settings, monkeypatch):
    prometheus = pytest.importorskip("prometheus_client")
    monkeypatch.setattr(prometheus, "REGISTRY", prometheus.CollectorRegistry())
    settings.TASKS = MEMORY
    page = DOCS / name if (DOCS / name).exists() else ROOT / name
    for statement in python_of(page):
        if isinstance(statement, ast.Expr) and _is_cancel(statement):
            page_module.result = app.beat.enqueue()
        run_statement(statement, page_module.__dict__)
        for setting in [key for key in vars(page_module) if key.startswith("VTASKS_")]:
            setattr(settings, setting, vars(page_module).pop(setting))
        if "LOGGING" in vars(page_module):
            check_logging(page_module.__dict__.pop("LOGGING"))
    assert [str(problem) for problem in run_checks() if str(problem.id).startswith("django_vtasks")] == []


def _is_cancel(statement):
    return ast.unparse(statement) == "result.cancel()"


def check_logging(config):
    """Every part can be made; the process's own logging stays as it is."""
    configurator = logging.config.DictConfigurator(config)
    for formatter in config.get("formatters", {}).values():
        made = configurator.configure_formatter(formatter)
        assert made.format(logging.makeLogRecord({"msg": "x", "job_id": "j1"}))
    assert all(part["level"] in logging.getLevelNamesMapping() for part in config["loggers"].values())


@pytest.mark.parametrize("kind", ["db", "valkey"])
def test_the_page_on_stores_says_how_to_choose_each(kind, settings):
    """Quick start and upgrade guides send everybody there who wants another one."""
    page = DOCS / "discussions" / "choosing-a-store.md"
    blocks = [block[3] for block in BLOCK.finditer(page.read_text()) if "TASKS = " in block[3]]
    (block,) = [block for block in blocks if f"backends.{kind}." in block]
    exec(block, namespace := {})
    settings.TASKS = namespace["TASKS"]
    assert [problem for problem in task_backends["default"].check() if problem.is_serious()] == []


# -- commands ---------------------------------------------------------------------------------------------------------


def commands():
    """Every call of one of our commands in the pages, blocks and inline, as the words behind `manage.py`."""
    for page in PAGES:
        if page.name == "commands.md":
            continue  # written from the parsers
        text = page.read_text()
        calls = re.findall(r"(?:^\$ |&& |`|^ExecStart=)[\w./]*(?:python )?manage\.py ([^`\n]*)", text, re.MULTILINE)
        for call in dict.fromkeys(calls):
            words = shlex.split(call.partition(" #")[0].replace("…", "x"))
            if words and words[0] in OWN and words not in GROUPS:
                yield pytest.param(words, id=f"{page.name}: {' '.join(words)}")


def parsed(words):
    name, *arguments = words
    return load_command_class("django_vtasks", name).create_parser("manage.py", name).parse_args(arguments)


@pytest.mark.parametrize("words", list(commands()))
def test_a_command_of_the_documentation_exists_and_takes_its_arguments(words):
    assert parsed(words)


def test_commands_were_found():
    assert len(list(commands())) > 30


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_of_make_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = set(re.findall(r"(?:^\$ |`|^)make ([a-z-]+)(?=[\s`])", page.read_text(), re.MULTILINE))
    assert asked - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_extras_that_are_to_be_installed_exist(page):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = re.findall(r"django-vtasks\[([\w,]+)\]", page.read_text())
    assert {extra for group in asked for extra in group.split(",")} - set(extras) == set()


# -- deployment -------------------------------------------------------------------------------------------------------

DEPLOYMENT = (DOCS / "guides" / "deployment.md").read_text()


def titled(title):
    (found,) = re.findall(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```$', DEPLOYMENT, re.MULTILINE | re.DOTALL)
    return found


def worker_of(words):
    """The arguments of `runworker` in a command, parsed."""
    words = list(words)
    return parsed(words[words.index("manage.py") + 1 :])


def test_the_unit_starts_a_worker_and_lets_it_end():
    unit = titled("/etc/systemd/system/mysite-worker@.service")
    start = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1]
    assert worker_of(shlex.split(start)).scheduler
    assert Path(start.split()[0]).is_absolute()
    assert re.search(r"^KillSignal=SIGTERM$", unit, re.MULTILINE)


def test_the_image_and_the_compose_file_start_and_probe_a_worker():
    image, services = titled("Dockerfile"), yaml.safe_load(titled("compose.yaml"))["services"]
    assert worker_of(json.loads(image.rpartition("CMD ")[2])).scheduler
    assert all(name in services for service in services.values() for name in service.get("depends_on", []))
    kind, *probe = services["worker"]["healthcheck"]["test"]
    assert kind == "CMD"
    assert parsed(probe[probe.index("manage.py") + 1 :])
    # What `vtasks_health` asks without a port is the file that the image names.
    assert "VTASKS_HEALTH_CHECK_FILE=" in image
    assert "noeviction" in services["valkey"]["command"]


def test_the_pod_is_probed_where_its_worker_listens():
    document = yaml.safe_load(titled("worker.yaml"))
    pod = document["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    port = worker_of(container["command"]).health_port
    assert {entry["name"]: entry["containerPort"] for entry in container["ports"]} == {"health": port}
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "health"}
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(port)
    assert document["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_the_line_for_cron_drains():
    (line,) = re.findall(r"^\* \* \* \* \* .*$", DEPLOYMENT, re.MULTILINE)
    options = worker_of(shlex.split(line))
    assert options.drain
    assert options.max_jobs == 500


# -- the store's user -------------------------------------------------------------------------------------------------


@pytest.mark.valkey
def test_the_user_of_the_security_page_may_do_what_a_queue_needs_and_touch_nothing_else(start_server, settings):
    import valkey

    from tests.support.servers import ValkeyServer

    page = (DOCS / "discussions" / "security.md").read_text()
    (rule,) = re.findall(r"^ +user (mysite on .*)$", page, re.MULTILINE)
    server = start_server(ValkeyServer())
    with valkey.Valkey.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", *rule.split())
    url = server.url.replace("redis://", "redis://mysite:long-random-password@")
    backend = "django_vtasks.backends.valkey.ValkeyTaskBackend"
    settings.TASKS = {"default": {"BACKEND": backend, "QUEUES": [], "OPTIONS": {"BROKER_URL": url}}}
    from tests.support.sample_tasks import bare

    result = bare.using(on_commit=False).enqueue(2, 3)
    drain()
    result.refresh()
    assert result.return_value == [2, 3]
    with valkey.Valkey.from_url(url) as client, pytest.raises(valkey.exceptions.NoPermissionError):
        client.get("session:1")


def test_code_in_an_unknown_language_is_not_overlooked():
    known = {"python", "console", "json", "yaml", "ini", "dockerfile", "mermaid", "text"}
    assert {block[2] for page in PAGES for block in BLOCK.finditer(page.read_text())} <= known
