"""Declaring and modifying tasks: statements A 1 to 17."""

from __future__ import annotations

import asyncio
import datetime
import functools
from datetime import timedelta

import pytest
from django.template import engines
from django.utils import timezone

from django_vtasks import Unique, VTask, task
from django_vtasks.framework import DECORATOR_TAKES_OPTIONS, LOGGER_NAME, InvalidTask, Task, django_task, task_backends
from tests.django.conftest import MEMORY, entry
from tests.support import sample_tasks as sample
from tests.support.naming import shown
from tests.support.processes import run_script


@pytest.mark.parametrize("one", [sample.bare, sample.called, sample.abare, sample.of_django])
def test_every_decorator_gives_a_task_of_the_framework_that_is_ours(one):
    """A 1, A 2."""
    assert isinstance(one, Task)
    assert type(one) is VTask


def test_the_function_is_reachable_under_the_names_of_the_old_line():
    assert sample.bare.django_task is sample.bare
    assert sample.bare.func(1, 2) == [1, 2]
    assert (sample.bare.name, sample.bare.module_path) == ("bare", "tests.support.sample_tasks.bare")
    assert sample.bare.get_backend() is task_backends["default"]


def test_a_task_can_be_called_like_its_function():
    assert sample.bare(1, b=2) == [1, 2]
    assert sample.bare.call(1, b=2) == [1, 2]
    assert sample.abare.call(3) == 3
    assert asyncio.run(sample.abare(3)) == 3
    assert asyncio.run(sample.bare.acall(1)) == [1, None]


def a_closure(value=1):
    return lambda: value


def test_a_template_that_shows_a_task_does_not_run_it():
    template = engines["django"].from_string("{{ task.name }} {{ result.task.module_path }}")
    shown = template.render({"task": exploding, "result": {"task": exploding}})
    assert shown == f"exploding {__name__}.exploding"


@task
def exploding():
    raise AssertionError("it was run")


@pytest.mark.parametrize(
    "function",
    [len, sample.Body().method, functools.partial(sample.plain, 1), a_closure()],
    ids=lambda f: type(f).__name__,
)
def test_what_no_worker_can_import_is_refused_when_it_is_declared(function):
    """A 3."""
    with pytest.raises(InvalidTask):
        task(function)


def test_generator_functions_are_refused():
    with pytest.raises(InvalidTask, match="generator"):
        task(_generator)
    with pytest.raises(InvalidTask, match="generator"):
        task(_async_generator)


def _generator():
    yield


async def _async_generator():
    yield


def test_a_context_task_needs_a_first_argument_of_that_name():
    """A 4."""
    with pytest.raises(InvalidTask, match="context"):
        task(takes_context=True)(sample.plain)


@pytest.mark.parametrize("priority", [-100, 0, 100])
def test_priorities_within_the_range_are_accepted(priority):
    """A 5."""
    assert sample.bare.using(priority=priority).priority == priority


@pytest.mark.parametrize(
    "priority", [-101, 101, 3.1, float("nan"), float("inf"), "5", [], datetime.timedelta(1)], ids=shown
)
def test_other_priorities_are_refused_as_invalid(priority):
    """A 5, A 6."""
    with pytest.raises(InvalidTask, match="priority"):
        sample.bare.using(priority=priority)


@pytest.mark.parametrize(("given", "kept"), [(3.0, 3), (True, 1), (-0.0, 0)])
def test_whole_numbers_in_disguise_are_kept_as_integers(given, kept, memory):
    """A 6."""
    changed = sample.bare.using(priority=given)
    assert (changed.priority, type(changed.priority)) == (kept, int)
    record = memory.get(Task.enqueue(changed).id)
    assert (record.job.priority, type(record.job.priority)) == (kept, int)


def test_a_naive_run_after_is_refused_where_time_zones_are_used(settings, memory):
    """A 7."""
    naive = datetime.datetime(2030, 1, 1)
    with pytest.raises(InvalidTask, match="aware"):
        sample.bare.using(run_after=naive)
    settings.USE_TZ = False
    assert sample.bare.using(run_after=naive).run_after == naive


def test_a_timedelta_counts_from_each_enqueue(memory):
    """A 8."""
    later = sample.bare.using(run_after=timedelta(hours=1))
    before = timezone.now()
    result = later.enqueue()
    assert before + timedelta(minutes=59) < result.task.run_after < before + timedelta(minutes=61)
    assert later.run_after == timedelta(hours=1)
    assert memory.get(result.id).job.run_after == pytest.approx(before.timestamp() + 3600, abs=30)


@pytest.mark.parametrize("moment", ["tomorrow", 5, datetime.date(2030, 1, 1), timedelta.max, timedelta.min], ids=shown)
def test_what_is_no_moment_is_refused_as_run_after(moment):
    """A 8."""
    with pytest.raises(InvalidTask, match="run_after"):
        sample.bare.using(run_after=moment)


def test_an_unknown_queue_is_refused_when_the_task_is_modified_and_when_settings_changed(settings):
    """A 9."""
    settings.TASKS = entry(MEMORY, QUEUES=["default", "mail"])
    mail = sample.bare.using(queue_name="mail")
    assert mail.enqueue() is not None
    with pytest.raises(InvalidTask, match="post"):
        sample.bare.using(queue_name="post")
    settings.TASKS = entry(MEMORY)
    with pytest.raises(InvalidTask, match="mail"):
        mail.enqueue()


def test_an_empty_list_of_queues_accepts_any_name(settings):
    """A 10."""
    settings.TASKS = entry(MEMORY, QUEUES=[])
    settings.VTASKS_QUEUES = {"ingest": {"batch": {"count": 10, "timeout": 1}}}
    assert sample.bare.using(queue_name="anything").enqueue() is not None
    assert sample.bare.enqueue() is not None
    settings.TASKS = entry(MEMORY)
    with pytest.raises(InvalidTask):
        sample.bare.using(queue_name="anything")


@pytest.mark.parametrize("queues", [["emails"], {"emails": {}}, {"emails": {"batch": {"count": 1, "timeout": 1}}}])
def test_queues_of_the_worker_setting_are_accepted_too(settings, queues):
    settings.TASKS = entry(MEMORY, QUEUES=["default", "mail"])
    settings.VTASKS_QUEUES = queues
    assert {"default", "mail", "emails"} == task_backends["default"].queues
    assert sample.bare.using(queue_name="emails").queue_name == "emails"
    assert sample.bare.using(queue_name="mail").queue_name == "mail"


def test_the_default_of_the_worker_setting_adds_no_queue(settings):
    settings.TASKS = entry(MEMORY, QUEUES=["mail"])
    assert task_backends["default"].queues == {"mail"}


@pytest.mark.parametrize("name", [5, None, "", "a" * 256, "a\x00b", "a\nb", "\ud800"], ids=shown)
def test_queue_names_no_store_could_keep_are_refused(settings, name):
    """B 32."""
    settings.TASKS = entry(MEMORY, QUEUES=[])
    with pytest.raises(InvalidTask, match="queue"):
        VTask(func=sample.plain, queue_name=name)


def test_a_path_no_store_could_keep_is_refused(settings):
    """B 32."""

    def function():
        pass

    function.__qualname__ = function.__name__ = "f" * 256
    with pytest.raises(InvalidTask, match="longer"):
        task(function)


def test_using_gives_an_equal_copy_and_keeps_earlier_changes():
    """A 12."""
    copy = sample.bare.using()
    assert copy == sample.bare
    assert copy is not sample.bare
    assert hash(copy) == hash(sample.bare)
    chained = sample.bare.using(priority=7).using(unique_key="k", unique=True).using(ttl=5)
    assert (chained.priority, chained.unique_key, chained.ttl, chained.unique) == (7, "k", 5, True)
    assert (sample.bare.priority, sample.bare.unique_key, sample.bare.unique) == (0, None, False)


def test_none_means_unchanged_in_using():
    task_with_key = sample.bare.using(priority=5, unique=True, unique_key="k", ttl=3, on_commit=False, max_rescues=2)
    unchanged = task_with_key.using(
        priority=None,
        queue_name=None,
        run_after=None,
        backend=None,
        unique=None,
        unique_key=None,
        ttl=None,
        remove_unique_on_complete=None,
        on_commit=None,
        max_rescues=None,
    )
    for name in VTask.__dataclass_fields__:
        assert getattr(unchanged, name) == getattr(task_with_key, name), name


@pytest.mark.skipif(not DECORATOR_TAKES_OPTIONS, reason="Django 6.0's decorator takes no further options")
def test_options_go_through_the_frameworks_decorator():
    """A 13."""
    declared = django_task(unique=True, ttl=9, max_attempts=4)(sample.plain)
    assert (declared.unique, declared.ttl, declared.max_attempts) == (True, 9, 4)


def test_options_go_through_our_decorator_on_every_version():
    """A 13."""
    declared = task(unique=True, ttl=9, max_attempts=4, priority=2, takes_context=False)(sample.plain)
    assert (declared.unique, declared.ttl, declared.max_attempts, declared.priority) == (True, 9, 4, 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"uniqe": True}, "did you mean 'unique'"),
        ({"colour": "red"}, "known are"),
        ({"run_after": None}, "using"),
    ],
)
def test_an_unknown_option_fails_where_the_task_is_declared(options, said):
    """A 14."""
    with pytest.raises(TypeError, match=said):
        task(**options)
    with pytest.raises(TypeError):
        django_task(**options)(sample.plain)


@pytest.mark.parametrize("options", [{"uniqe": True}, {"takes_context": True}, {"func": sample.plain}])
def test_an_unknown_option_fails_in_using(options):
    with pytest.raises(TypeError):
        sample.bare.using(**options)


@pytest.mark.parametrize("name", ["max_attempts", "backoff", "retry_on", "timeout", "schedule", "limit"])
def test_options_the_worker_reads_from_the_declaration_cannot_differ_from_call_to_call(name):
    with pytest.raises(TypeError, match="decorator"):
        sample.bare.using(**{name: 1})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ttl": 0}, "ttl"),
        ({"ttl": "5"}, "ttl"),
        ({"ttl": float("nan")}, "ttl"),
        ({"max_rescues": -1}, "max_rescues"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 1.5}, "max_attempts"),
        ({"timeout": -1}, "timeout"),
        ({"expires": 0}, "expires"),
        ({"result_ttl": -1}, "result_ttl"),
        ({"backoff": "sometimes"}, "backoff"),
        ({"backoff": object()}, "delay"),
        ({"retry_on": "ValueError"}, "retry_on"),
        ({"give_up_on": (ValueError, 3)}, "give_up_on"),
        ({"on_commit": 5}, "on_commit"),
        ({"on_duplicate": "raise"}, "on_duplicate"),
        ({"redact": [1]}, "redact"),
        ({"metadata": "x"}, "metadata"),
        ({"unique": "yes"}, "unique"),
        ({"unique": True, "remove_unique_on_complete": False}, "window"),
        ({"unique": Unique.until_done(), "ttl": 5}, "Unique rule"),
        ({"unique": Unique.once_per(0)}, "window"),
        ({"unique_key": "order:{nothing}"}, "nothing"),
        ({"unique_key": 5}, "unique key"),
    ],
    ids=shown,
)
def test_a_wrong_value_is_refused_where_the_task_is_declared(options, said):
    with pytest.raises(InvalidTask, match=said):
        task(**options)(sample.plain)


def test_every_problem_of_a_task_is_named_at_once():
    with pytest.raises(InvalidTask) as caught:
        task(ttl=-1, timeout=-1, on_duplicate="x")(sample.plain)
    assert all(name in str(caught.value) for name in ("ttl", "timeout", "on_duplicate", "sample_tasks.plain"))


def test_a_task_rebuilt_from_the_six_standard_fields_still_enqueues(memory):
    """A 15."""
    rebuilt = sample.six_fields(sample.mutex)
    assert rebuilt == sample.mutex
    assert memory.get(rebuilt.enqueue(1).id).job.func == "tests.support.sample_tasks.mutex"
    plain = Task(func=sample.bare.func, **({} if DECORATOR_TAKES_OPTIONS else _standard(sample.bare)))
    assert memory.get(plain.enqueue(1).id).job.args == [1]


def _standard(origin):
    return {name: getattr(origin, name) for name in ("priority", "queue_name", "backend", "run_after")}


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (sample.renamed, "no Task"),
        (sample.hidden.inner, "outermost"),
        (sample.lambdas[0], "lambda"),
        (sample.Body.inside, "top level"),
    ],
    ids=["renamed", "outer decorator", "lambda", "class body"],
)
def test_a_task_that_cannot_be_imported_back_is_refused_and_nothing_is_stored(one, said, memory):
    """A 16."""
    with pytest.raises(InvalidTask, match=said):
        one.enqueue()
    with pytest.raises(InvalidTask, match=said):
        asyncio.run(one.aenqueue())
    assert memory.counts() == []


def test_a_task_of_the_main_module_is_refused():
    """A 16."""
    script = (
        "from django.conf import settings\n"
        f"settings.configure(TASKS={entry(MEMORY)!r}, USE_TZ=True)\n"
        "import django; django.setup()\n"
        "from django_vtasks import task\n"
        "@task\ndef local(): pass\n"
        "local.enqueue()\n"
    )
    done = run_script(script)
    assert done.returncode != 0
    assert "__main__" in done.stderr.splitlines()[-1]


def test_a_module_with_tasks_can_be_imported_before_the_app_registry_is_ready():
    """A 17."""
    for backend in ("db.DatabaseTaskBackend", "valkey.ValkeyTaskBackend", "immediate.ImmediateBackend"):
        path = f"django_vtasks.backends.{backend}"
        script = (
            "from django.conf import settings\n"
            f"settings.configure(TASKS={entry(path)!r}, INSTALLED_APPS=['django_vtasks', 'django_vtasks.db'])\n"
            "import sys, tests.support.sample_tasks as sample\n"
            "print(type(sample.bare).__name__)\n"
            "print([name for name in sys.modules if name.split('.')[0] in ('valkey', 'redis', 'psycopg')])\n"
        )
        done = run_script(script)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["VTask", "[]"]


@pytest.mark.parametrize(
    ("options", "loaded"), [({"BROKER_URL": "valkey://127.0.0.1:1"}, True), ({"cache_alias": "gone"}, False)]
)
def test_a_process_that_has_started_need_not_load_the_driver_at_its_first_enqueue(options, loaded):
    path = "django_vtasks.backends.valkey.ValkeyTaskBackend"
    script = (
        "from django.conf import settings\n"
        f"settings.configure(TASKS={entry(path, OPTIONS=options)!r}, INSTALLED_APPS=['django_vtasks'])\n"
        "import django; django.setup()\n"
        "import sys\n"
        "print('valkey.asyncio.connection' in sys.modules or 'redis.asyncio.connection' in sys.modules)\n"
    )
    done = run_script(script)
    assert done.stdout.strip() == str(loaded), done.stderr


@pytest.mark.skipif(LOGGER_NAME == "django_tasks", reason="the backport is the framework here")
def test_tasks_declared_through_the_backport_are_ours_too():
    """L 127: Wagtail declares its tasks that way on every version of Django."""
    script = (
        "from django.conf import settings\n"
        f"settings.configure(TASKS={entry(MEMORY)!r}, INSTALLED_APPS=['django_vtasks', 'django_tasks'])\n"
        "import django; django.setup()\n"
        "import tests.support.backport_tasks as backport\n"
        "result = backport.declared.enqueue(1)\n"
        "print(type(backport.declared).__name__, backport.declared.get_result(result.id) == result)\n"
    )
    done = run_script(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "VTask True"


def test_the_public_names_load_on_first_use():
    done = run_script("import sys, django_vtasks\nprint(sorted(n for n in sys.modules if n.startswith('django')))")
    assert done.stdout.strip() == "['django_vtasks']", done.stderr
    import django_vtasks

    assert set(django_vtasks.__all__) <= set(dir(django_vtasks))
    for name in django_vtasks.__all__:
        assert getattr(django_vtasks, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        django_vtasks.nothing  # noqa: B018


def test_a_task_for_another_packages_backend_is_ours_too(settings):
    settings.TASKS = entry(f"{LOGGER_NAME}.backends.dummy.DummyBackend")
    declared = task(unique=True, max_attempts=3)(sample.plain)
    assert type(declared) is VTask
    result = declared.enqueue(1)
    assert (result.args, result.status) == ([1], "READY")
    later = task(sample.plain).using(run_after=timedelta(hours=1))
    assert later.run_after > timezone.now()
