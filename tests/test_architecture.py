"""Who may import whom, how long things may be, and what a starting process must not load.

Read off the source with `ast`, so that a rule holds for late imports and for code that no test runs.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests.support import architecture as arch
from tests.support.processes import process_environment

MODULES = arch.modules_under(arch.SRC / arch.PACKAGE, arch.PACKAGE)
TESTS = arch.modules_under(arch.ROOT / "tests", "tests")

MODULE_LINES, CLASS_LINES, BODY_LINES, COMMENT_LINES, PARAMETERS, TEST_FILE_LINES = 400, 250, 40, 5, 6, 600

# -- exceptions: the only tables of them, each with its reason --------------------------------------------------------

#: What may be longer or wider: "module" or "module:qualified name" -> reason.
LIMIT_EXCEPTIONS: dict[str, str] = {}

#: Test modules that may sleep, beside tests/support and tests/acceptance -> reason.
SLEEP_EXCEPTIONS: dict[str, str] = {}

#: Other people's packages that the domain may use -> reason.
DOMAIN_LIBRARIES = {
    "orjson": "the codec's JSON",
    "backports": "zstd before Python 3.14, imported late",
    "compression": "zstd of Python 3.14, unknown to older standard libraries",
}

#: From the bottom to the top; a module imports its own group or groups of lower rows, never a sibling of its row.
LAYERS: list[tuple[str, ...]] = [
    ("jobs",),
    ("framework", "exceptions", "utils", "signals"),
    ("events", "stores.base"),
    ("conf",),
    ("db", "models"),
    ("stores", "serialization"),
    ("tasks",),
    ("execution", "logs", "metrics", "tracing"),
    ("worker",),
    ("scheduling",),
    ("backends",),
    ("operating",),
    # Edges and the names of the old line: nobody imports them.
    (
        *("admin", "db.admin", "templatetags", "management", "asgi", "testing", "checks"),
        *("apps", "db.apps", "scheduler", "empty_urls", "contrib"),
    ),
]

#: Each is one edge; the two admins may share code.
EDGES = (("admin", "db.admin"), ("management",), ("asgi",), ("testing",), ("contrib",))


def ours(*names: str) -> tuple[str, ...]:
    return tuple(f"{arch.PACKAGE}.{name}" for name in names)


def group_of(name: str) -> tuple[int, str] | None:
    """The row and the group of a module: the longest name in LAYERS that it is or lies below."""
    rows = [(row, group) for row, groups in enumerate(LAYERS) for group in groups]
    fitting = [entry for entry in rows if arch.is_within(name, *ours(entry[1]))]
    return max(fitting, key=lambda entry: len(entry[1]), default=None)


def nothing(problems: Iterable[str]) -> None:
    """Fail with every problem in full, one a line."""
    if listed := list(problems):
        pytest.fail("\n".join(listed), pytrace=False)


def found(module: arch.Module, imported: arch.Import) -> str:
    return f"{module.name} line {imported.line} imports {imported.name}"


def test_the_source_is_seen():
    assert arch.within(MODULES, *ours("jobs")), "no module found: do these tests look at the right folder?"


# -- imports ----------------------------------------------------------------------------------------------------------


def test_the_domain_imports_the_standard_library_only():
    nothing(
        [
            found(module, imported)
            for module in arch.within(MODULES, *ours("jobs"))
            for imported in module.imports
            if not arch.is_stdlib(imported.name)
            and not imported.within(*ours("jobs"))
            and imported.root not in DOMAIN_LIBRARIES
        ]
    )


def test_the_domain_reads_no_clock():
    clocks = re.compile(
        r"(^|\.)(time\.(time|monotonic|perf_counter)(_ns)?|datetime\.(now|utcnow|today)|timezone\.now)$"
    )
    nothing(
        [
            f"{module.name} line {call.lineno} calls {name}"
            for module in arch.within(MODULES, *ours("jobs"))
            for name, call in module.calls
            if clocks.search(name)
        ]
    )


@pytest.mark.parametrize(
    ("store", "libraries", "neighbours"),
    [
        ("stores.base", (), ()),
        ("stores.memory", (), ()),
        ("stores.valkey", ("valkey", "redis"), ()),
        ("stores.database", ("django", "psycopg", "asgiref"), ("db",)),
    ],
)
def test_a_store_knows_the_domain_the_seam_and_its_own_driver(store, libraries, neighbours):
    allowed = ours("jobs", "stores.base", store, *neighbours)
    nothing(
        [
            found(module, imported)
            for module in arch.within(MODULES, *ours(store))
            for imported in module.imports
            if not arch.is_stdlib(imported.name)
            and not imported.within(*allowed)
            and imported.root not in {*libraries, "orjson"}
        ]
    )


@pytest.mark.parametrize(
    ("libraries", "importers"),
    [
        (("valkey", "redis", "libvalkey", "hiredis"), ("stores.valkey.client",)),
        (("django.tasks", "django_tasks"), ("framework",)),
        (("psycopg", "psycopg2", "MySQLdb"), ("stores.database",)),
        (("cronsim",), ("scheduling",)),
        (("prometheus_client",), ("metrics",)),
        (("opentelemetry",), ("tracing",)),
        (("django.contrib.admin",), ("admin", "db.admin")),
    ],
    ids=lambda value: value[0],
)
def test_a_library_has_one_importer(libraries, importers):
    nothing(
        [
            found(module, imported)
            for module in MODULES
            for imported in module.imports
            if imported.within(*libraries) and not arch.is_within(module.name, *ours(*importers))
        ]
    )


def test_the_worker_and_the_executor_know_no_concrete_store():
    nothing(
        [
            found(module, imported)
            for module in arch.within(MODULES, *ours("worker", "execution", "scheduling"))
            for imported in module.imports
            if imported.within(*ours("stores", "backends", "db")) and not imported.within(*ours("stores.base"))
        ]
    )


def test_nobody_imports_the_edges():
    nothing(
        [
            found(module, imported)
            for module in MODULES
            for imported in module.imports
            for edge in EDGES
            if imported.within(*ours(*edge)) and not arch.is_within(module.name, *ours(*edge))
        ]
    )


def test_every_module_has_a_place_in_the_layers():
    nothing([m.name for m in MODULES if m.name != arch.PACKAGE and m.text.strip() and group_of(m.name) is None])


def test_imports_go_downwards_only():
    upwards = []
    for module in MODULES:
        place = group_of(module.name)
        for imported in module.imports if place else ():
            target = group_of(imported.name)
            if target is None or target[1] == place[1]:
                continue
            if target[0] >= place[0] and place[0] < len(LAYERS) - 1:
                upwards.append(found(module, imported))
    nothing(upwards)


def test_no_modules_need_each_other_to_load():
    nothing(" -> ".join(cycle) for cycle in arch.early_cycles(MODULES))


def test_the_package_itself_is_imported_by_nobody_inside():
    nothing(
        [
            found(module, imported)
            for module in MODULES
            for imported in module.imports
            if imported.name == arch.PACKAGE and imported.early
        ]
    )


# -- lengths ----------------------------------------------------------------------------------------------------------


def too_long():
    for module in MODULES:
        if ".migrations." in module.name:
            continue
        yield module.name, "lines", module.length, MODULE_LINES
        for node in module.classes:
            yield f"{module.name}:{node.name}", "lines", node.end_lineno - node.lineno + 1, CLASS_LINES
        for name, function in module.functions:
            if function.name != "add_arguments":
                yield f"{module.name}:{name}", "lines of body", arch.body_length(function), BODY_LINES
            yield f"{module.name}:{name}", "parameters", arch.parameter_count(function), PARAMETERS
        for line, length in module.comment_blocks:
            yield f"{module.name}:{line}", "lines of comment", length, COMMENT_LINES


def test_nothing_is_longer_than_its_limit():
    nothing(
        [
            f"{where} has {size} {what}, the limit is {limit}"
            for where, what, size, limit in too_long()
            if size > limit and where not in LIMIT_EXCEPTIONS
        ]
    )


def test_every_exception_is_still_needed():
    needed = {where for where, _, size, limit in too_long() if size > limit}
    nothing(set(LIMIT_EXCEPTIONS) - needed)


def test_test_files_stay_readable():
    nothing(
        [
            f"{module.name} has {module.length} lines, the limit is {TEST_FILE_LINES}"
            for module in TESTS
            if module.length > TEST_FILE_LINES and module.name not in LIMIT_EXCEPTIONS
        ]
    )


# -- tests and text ---------------------------------------------------------------------------------------------------


def passes_time(name: str, call: ast.Call) -> bool:
    no_time = bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
    return name in {"time.sleep", "asyncio.sleep", "anyio.sleep"} and not no_time


def test_tests_wait_for_conditions_and_not_for_time_to_pass():
    nothing(
        [
            f"{module.name} line {call.lineno} calls {name}: use tests.support.waiting"
            for module in TESTS
            if not arch.is_within(module.name, "tests.support", "tests.acceptance", *SLEEP_EXCEPTIONS)
            for name, call in module.calls
            if passes_time(name, call)
        ]
    )


def test_no_file_names_a_folder_of_one_machine():
    here = "|".join(["/ro" + "ot/", "/ho" + "me/[a-z]", "/wo" + "rk/", "/Us" + "ers/", r"\.py" + "env/versions"])
    machine_path = re.compile(rf"(?<![\w./}}-])({here})")
    nothing(
        [
            f"{path.relative_to(arch.ROOT)}:{number}: {line.strip()[:120]}"
            for path in arch.text_files()
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
            if machine_path.search(line)
        ]
    )


def test_the_pinned_requirements_name_no_source():
    pins = [line for path in (arch.ROOT / "requirements").glob("*.txt") for line in path.read_text().splitlines()]
    assert pins
    nothing([line for line in pins if re.search(r"^-|://|@ ", line)])
    nothing([line for line in pins if not line.startswith("#") and "==" not in line])


# -- starting ---------------------------------------------------------------------------------------------------------

START = """
import sys
import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django_vtasks", "django_vtasks.db"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    TASKS={"default": {"BACKEND": "django_vtasks.backends.db.DatabaseTaskBackend"}},
    USE_TZ=True,
)
django.setup()
import django_vtasks
print("\\n".join(sorted(sys.modules)))
"""

NOT_AT_START = (
    *("django.contrib.admin", "cronsim", "prometheus_client", "opentelemetry", "valkey", "redis", "uvloop", "psycopg"),
    *ours("admin", "checks", "worker", "scheduling", "management", "stores.valkey", "metrics", "tracing", "testing"),
    *ours("contrib"),
)


@pytest.mark.skipif(not (arch.SRC / arch.PACKAGE / "apps.py").exists(), reason="the package has no apps.py yet")
def test_a_starting_process_loads_nothing_it_does_not_use():
    done = subprocess.run(
        [sys.executable, "-c", START],
        env=process_environment(PYTHONPATH=str(arch.SRC)),
        cwd=arch.ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert "django_vtasks" in loaded
    nothing([name for name in loaded if arch.is_within(name, *NOT_AT_START)])
