"""The documentation agrees with the code: nothing undocumented, nothing documented that does not exist."""

from __future__ import annotations

import ast
import configparser
import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from django_vtasks import signals
from django_vtasks.backends.db import DatabaseTaskBackend
from django_vtasks.backends.valkey import ValkeyTaskBackend
from django_vtasks.conf import BATCH_OPTION_KEYS, DEFAULTS, QUEUE_OPTION_KEYS
from django_vtasks.jobs.codec import decode, to_payload
from django_vtasks.jobs.uniqueness import derive_key
from django_vtasks.tasks.options import DeclaredOptions

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "django_vtasks"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
BLOCK = re.compile(r"^( *)```(\w+)(?: title=\"[^\"]*\")?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def _load(path):
    spec = importlib.util.spec_from_file_location("docs_generate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = _load(DOCS / "generate.py")


def blocks(*languages):
    """Every code block of the documentation in one of the languages, with where it is."""
    for page in PAGES:
        text = page.read_text()
        for found in BLOCK.finditer(text):
            if found[2] in languages:
                line = text.count("\n", 0, found.start()) + 1
                code = "".join(part.removeprefix(found[1]) for part in found[3].splitlines(keepends=True))
                yield pytest.param(code, id=f"{page.relative_to(ROOT)}:{line}")


@pytest.mark.parametrize("name", generate.PAGES)
def test_a_page_of_the_reference_is_as_the_code_says(name):
    written = (DOCS / "reference" / name).read_text()
    assert written == generate.NOTE + generate.PAGES[name]().rstrip() + "\n", "run: python docs/generate.py"


@pytest.mark.parametrize(
    ("documented", "existing"),
    [
        pytest.param(generate.SETTINGS, DEFAULTS, id="settings"),
        pytest.param(generate.QUEUE, QUEUE_OPTION_KEYS, id="queue options"),
        pytest.param(generate.BATCH, BATCH_OPTION_KEYS, id="batch options"),
        pytest.param(
            generate.OPTIONS, DatabaseTaskBackend.known_options | ValkeyTaskBackend.known_options, id="backend options"
        ),
        pytest.param(generate.SIGNALS, signals.__all__, id="signals"),
        pytest.param(
            {*generate.COMMANDS, *generate.SAME},
            {file.stem for file in (SOURCE / "management" / "commands").glob("[!_]*.py")},
            id="commands",
        ),
    ],
)
def test_every_name_is_documented_and_exists(documented, existing):
    assert set(documented) == set(existing)


def test_every_check_is_documented_and_exists():
    text = "".join(file.read_text() for file in SOURCE.rglob("*.py"))
    numbers = set(re.findall(r"""(?:"|django_vtasks\.)([EW]\d{3})\"""", text))
    assert numbers == set(generate.CHECKS)


def test_every_option_of_a_task_is_in_its_guide():
    guide = (DOCS / "guides" / "tasks.md").read_text()
    assert [name for name in DeclaredOptions.__annotations__ if f"`{name}`" not in guide] == []


def test_every_alert_is_in_the_guide_and_no_other():
    rules = re.findall(r"alert: (\w+)", (DOCS / "monitoring" / "alerts.yaml").read_text())
    guide = (DOCS / "guides" / "monitoring.md").read_text()
    assert rules
    assert {*re.findall(r"`(Vtasks\w+)`", guide)} == {*rules}


def test_the_guide_names_metrics_that_exist():
    known = {name for name, *_ in generate.all_metrics()}
    named = {*re.findall(r"`(vtasks_\w+)`", (DOCS / "guides" / "monitoring.md").read_text())} - {"vtasks_health"}
    assert named
    assert named - known == set()


def test_every_page_is_in_the_navigation_and_exists():
    # The file names a Python function, which a safe loader refuses; the navigation is what counts here.
    nav = re.findall(r"^\s+- ([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(nav) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("code", list(blocks("python")))
def test_python_in_the_documentation_compiles(code):
    compile(code, "docs", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("code", list(blocks("yaml", "json")))
def test_yaml_and_json_in_the_documentation_can_be_read(code):
    assert yaml.safe_load(code)


@pytest.mark.parametrize("code", list(blocks("ini")))
def test_units_in_the_documentation_can_be_read(code):
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(code)
    assert {"Unit", "Service", "Install"} == set(unit.sections())
    assert "runworker" in unit["Service"]["ExecStart"]


@pytest.mark.parametrize("code", list(blocks("dockerfile")))
def test_the_image_starts_a_worker_without_a_shell(code):
    """A shell as first process would keep the signal that stops a worker to itself."""
    command = code.rstrip().rpartition("\nCMD ")[2]
    assert json.loads(command)[:3] == ["python", "manage.py", "runworker"]


def test_the_protocol_shows_payloads_that_a_worker_reads():
    text = (DOCS / "PROTOCOL.md").read_text()
    (complete,) = re.findall(r"^```json.*?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (least,) = re.findall(r"LPUSH '\{vt\}:q:default' '(.*)'", text)
    job = decode(complete.encode())
    assert to_payload(job) == json.loads(complete)
    assert decode(least.encode()) == replace(job, enqueued_at=0.0)


def test_the_protocol_shows_true_unique_keys():
    rows = re.findall(r"^\| .* \| `(\[.*\])` \| `(\w+)` \|$", (DOCS / "PROTOCOL.md").read_text(), re.MULTILINE)
    assert len(rows) == 4
    for hashed, digest in rows:
        func, args, kwargs = json.loads(hashed)
        assert derive_key(func, args, kwargs) == f"vtasks:unique:{func}:{digest}"


def test_whoever_stops_a_worker_waits_longer_than_the_worker():
    guide = (DOCS / "guides" / "deployment.md").read_text()
    names = ("TimeoutStopSec=", "stop_grace_period: ", "terminationGracePeriodSeconds: ")
    waits = [int(re.search(rf"{name}(\d+)", guide)[1]) for name in names]
    assert min(waits) >= DEFAULTS["VTASKS_SHUTDOWN_TIMEOUT"] + 5


def test_the_documentation_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    assert (tmp_path / "reference" / "settings" / "index.html").exists()
