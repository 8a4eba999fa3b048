"""A project written for Celery, moved by changing its imports, and what the shim refuses."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_vtasks import Exponential, Fixed, Rate
from django_vtasks.contrib import celery as shim
from django_vtasks.contrib.celery import (
    AsyncResult,
    MaxRetriesExceededError,
    NotSupported,
    configure,
    import_beat_schedule,
    shared_task,
)
from django_vtasks.framework import InvalidTask, TaskResultDoesNotExist, task_backends
from django_vtasks.scheduling.entries import parse
from django_vtasks.tasks import options_of
from django_vtasks.testing import drain, enqueued, fire_due, travel
from tests.support.processes import process_environment

#: A module of a project on Celery, as it is.
TASKS = """
from celery import shared_task
from celery.result import AsyncResult

log = []


@shared_task
def add(x, y):
    return x + y


@shared_task(bind=True, max_retries=2, default_retry_delay=30)
def fetch(self, url):
    log.append((self.request.id, self.request.retries))
    try:
        if self.request.retries < 1:
            raise ConnectionError(url)
    except ConnectionError as exc:
        raise self.retry(exc=exc)
    return self.name


@shared_task(bind=True, max_retries=1)
def never(self):
    raise self.retry(exc=KeyError("nope"), countdown=5)


@shared_task(bind=True, time_limit=60)
def crunch(self, rows):
    for row in range(rows):
        self.context.check()
        self.context.progress(row + 1, rows)
    return self.context.cancelled


@shared_task(bind=True, max_retries=0)
def no_reason(self):
    self.retry()


@shared_task(autoretry_for=(ConnectionError,), retry_backoff=2, retry_backoff_max=100, retry_jitter=False)
def flaky(fail=True):
    log.append("flaky")
    raise ConnectionError("away") if fail else ValueError("wrong")


@shared_task(bind=True)
def slow(self, total):
    self.update_state(state="PROGRESS", meta={"done": 1, "total": total})
    log.append(AsyncResult(self.request.id).state)


@shared_task(bind=True)
async def asleep(self, value):
    return [self.request.retries, value, self.request.args]


@shared_task(name="reports.nightly", queue="reports", priority=5, expires=3600, ignore_result=True)
def nightly(day="today"):
    log.append(day)


def start(user_id):
    nightly.apply_async(kwargs={"day": "monday"}, countdown=60)
    return add.delay(user_id, 1)
"""


@pytest.fixture
def shop(settings, tmp_path, monkeypatch, request):
    """The module, moved: its imports changed and nothing else. Jobs are in memory."""
    settings.TASKS = {
        "default": {"BACKEND": "django_vtasks.backends.memory.MemoryTaskBackend", "QUEUES": ["default", "reports"]}
    }
    moved = TASKS.replace("from celery import", "from django_vtasks.contrib.celery import")
    moved = moved.replace("from celery.result import", "from django_vtasks.contrib.celery import")
    name = f"moved_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(moved)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(name)
    del sys.modules[name]


# -- the moved project ------------------------------------------------------------------------------------------------


def test_delay_enqueues_and_the_result_is_found_by_its_id(shop):
    result = shop.add.delay(2, 3)
    assert (result.state, result.ready(), result.result) == ("PENDING", False, None)
    drain()
    again = AsyncResult(result.id)
    assert again == result
    assert (again.status, again.ready(), again.successful(), again.failed()) == ("SUCCESS", True, True, False)
    assert (again.get(timeout=1), again.result) == (5, 5)
    assert again.date_done is not None
    assert again.task_result.args == [2, 3]
    assert shop.add.AsyncResult(result.task_id).get() == 5


def test_calling_a_task_calls_the_function(shop):
    assert shop.add(2, 3) == 5
    with pytest.raises(ConnectionError):
        shop.fetch("http://example.com")


def test_a_project_goes_on_as_before(shop):
    with travel() as clock:
        assert shop.start(7).state == "PENDING"
        assert [ran.value for ran in drain().succeeded] == [8]
        clock.advance(60)
        drain()
        assert shop.log == ["monday"]


def test_a_bound_task_retries_after_the_delay_it_declares(shop):
    with travel() as clock:
        result = shop.fetch.delay("http://example.com")
        assert [ran.retry_in for ran in drain().retried] == [30.0]
        assert result.state == "RETRY"
        clock.advance(30)
        drain()
        assert shop.log == [(result.id, 0), (result.id, 1)]
        assert result.get() == f"{shop.__name__}.fetch"


def test_the_exception_is_the_tasks_own_when_no_retry_is_left(shop):
    result = shop.never.delay()
    drained = drain(delayed=True)
    assert [ran.retry_in for ran in drained.retried] == [5.0]
    assert isinstance(drained.failed[0].error, KeyError)
    assert (result.state, result.result) == ("FAILURE", "KeyError: 'nope'")
    assert "KeyError" in result.traceback
    with pytest.raises(KeyError):
        result.get()
    assert result.get(propagate=False) == "KeyError: 'nope'"


def test_without_an_exception_it_is_celerys(shop):
    shop.no_reason.delay()
    assert isinstance(drain().failed[0].error, MaxRetriesExceededError)


def test_autoretry_follows_the_backoff(shop):
    shop.flaky.delay()
    drained = drain(delayed=True)
    assert [ran.retry_in for ran in drained.retried] == [2.0, 4.0, 8.0]
    assert len(drained.failed) == 1
    shop.flaky.delay(fail=False)
    assert drain(delayed=True).retried == []


def test_a_state_of_its_own_is_shown_while_it_runs(shop):
    result = shop.slow.delay(10)
    drain(raise_failures=True)
    assert shop.log == ["STARTED"]
    assert result.state == "SUCCESS"
    assert result.task_result.metadata == {"celery": {"state": "PROGRESS", "meta": {"done": 1, "total": 10}}}


def test_a_bound_task_asks_its_context_whether_to_stop_and_says_how_far_it_is(shop):
    result = shop.crunch.delay(2)
    drain(raise_failures=True)
    assert result.get() is False
    assert result.task_result.progress.done == 2
    assert shop.crunch(2) is False


def test_async_tasks_are_bound_too(shop):
    result = shop.asleep.delay("x")
    drain(raise_failures=True)
    assert result.get() == [0, "x", ["x"]]


def test_apply_async_takes_the_options_of_a_call(shop):
    eta = datetime(2030, 5, 1, 12, tzinfo=UTC)
    shop.add.apply_async((1, 2), eta=eta, queue="reports", priority=9, expires=60)
    shop.add.apply_async(args=[1], kwargs={"y": 2}, eta=eta.replace(tzinfo=None), retry=True)
    with travel():
        shop.add.apply_async((1, 2), countdown=30)
        first, second, third = enqueued(shop.add)
    assert (first.run_after, first.queue, first.priority) == (eta, "reports", 90)
    assert (second.run_after, second.kwargs) == (eta, {"y": 2})
    assert timedelta(0) < third.run_after - third.enqueued_at <= timedelta(seconds=30)


def test_an_ignored_result_is_not_kept(shop):
    result = shop.nightly.delay()
    kept = shop.add.apply_async((1, 2), ignore_result=True)
    drain()
    assert (result.state, kept.state) == ("PENDING", "PENDING")
    with pytest.raises(TaskResultDoesNotExist):
        result.get(timeout=1)


def test_revoke_cancels(shop):
    result = shop.add.delay(1, 2)
    result.revoke(terminate=True)
    assert (result.state, result.failed()) == ("REVOKED", False)
    assert drain().attempts == ()


def test_a_queue_that_does_not_exist_is_refused(shop):
    with pytest.raises(InvalidTask, match=r"'nowhere' .* Name it in VTASKS_QUEUES; TASKS\['default'\] has: default"):
        shop.add.apply_async((1, 2), queue="nowhere")


def test_what_it_makes_is_a_task_of_this_package(shop):
    assert shop.add.using(priority=3).enqueue(1, 2).id
    assert list(inspect.signature(shop.fetch.func).parameters) == ["context", "url"]
    backend = task_backends["default"]
    assert backend.enqueue_many([(shop.add, [1, 2], {}), (shop.fetch, ["x"], {})])[1].id


# -- options ----------------------------------------------------------------------------------------------------------


def declared(**options):
    return options_of(shared_task(**options)(sample))


def sample(value=None): ...


def test_retries_of_plain_tasks_are_only_those_asked_for():
    rule = declared().retry
    assert (rule.max_attempts, rule.retry_on, rule.backoff) == (4, (), Fixed(seconds=180.0))
    assert not rule.wants(ValueError())


@pytest.mark.parametrize(
    ("options", "attempts", "backoff"),
    [
        ({"max_retries": 5, "default_retry_delay": 10}, 6, Fixed(seconds=10.0)),
        ({"max_retries": None}, 10**9, Fixed(seconds=180.0)),
        ({"retry_kwargs": {"max_retries": 7, "countdown": 2}}, 8, Fixed(seconds=2.0)),
        ({"retry_backoff": True}, 4, Exponential(base=1.0, cap=600.0, floor=0.0)),
        ({"retry_backoff": 3, "retry_backoff_max": 9}, 4, Exponential(base=3.0, cap=9.0, floor=0.0)),
    ],
)
def test_retry_options_mean_what_they_mean_in_celery(options, attempts, backoff):
    rule = declared(autoretry_for=(OSError,), dont_autoretry_for=(FileNotFoundError,), **options).retry
    assert (rule.max_attempts, rule.backoff) == (attempts, backoff)
    assert rule.wants(OSError())
    assert not rule.wants(FileNotFoundError())


@pytest.mark.parametrize(
    ("value", "rate"),
    [
        ("10/m", Rate(10, per=60.0, burst=1)),
        ("5/s", Rate(5, per=1.0, burst=1)),
        ("100/h", Rate(100, per=3600.0, burst=1)),
        (2, Rate(2, per=1.0, burst=1)),
        ("0.5/m", Rate(1, per=120.0, burst=1)),
        (0, None),
        (None, None),
    ],
)
def test_rates(value, rate):
    assert declared(rate_limit=value).rate == rate


def test_limits_of_time_and_late_acknowledgement():
    options = declared(time_limit=60, soft_time_limit=50, acks_late=True, expires=30)
    assert (options.timeout, options.max_rescues, options.expires) == (50.0, 3, 30.0)
    assert declared(time_limit=60).timeout == 60.0
    assert declared(acks_late=False).max_rescues == 0
    assert declared(acks_late=True, max_rescues=1).max_rescues == 1


def test_priorities_of_both_brokers():
    assert [declared(priority=value).priority for value in (0, 5, 9)] == [0, 50, 90]
    configure(highest_priority=0)
    try:
        assert [declared(priority=value).priority for value in (0, 5, 9)] == [0, -50, -90]
    finally:
        configure(highest_priority=9)
    with pytest.raises(ValueError, match="RabbitMQ"):
        configure(highest_priority=5)


def test_options_of_this_package_may_stand_beside():
    assert declared(unique=True).unique is not None


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"base": object}, "no task classes"),
        ({"serializer": "pickle"}, "arguments are JSON"),
        ({"routing_key": "x"}, "name a queue"),
        ({"rate_limit": "10/d"}, "'10/m'"),
        ({"rate_limit": "often"}, "'10/m'"),
        ({"rate_limit": "-1/s"}, "negative"),
        ({"priority": 10}, "0 to 9"),
        ({"max_retries": -1}, "whole number"),
        ({"max_retry": 3}, "did you mean 'max_retries'"),
        ({"acks_on_failure_or_timeout": False}, "dead letter"),
        ({"rate": Rate(1), "rate_limit": "1/s"}, "give one of them"),
        ({"pydantic": True, "on_failure": print}, "model_validate.*; on_failure"),
    ],
)
def test_what_cannot_be_moved_is_refused_with_advice(options, advice):
    with pytest.raises(NotSupported, match=advice):
        declared(**options)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"link": None}, "end of this one"),
        ({"task_id": "x"}, "unique_key"),
        ({"time_limit": 5}, "declare it with the task"),
        ({"countdown": 5, "eta": datetime(2030, 1, 1, tzinfo=UTC)}, "one of them"),
        ({"cuntdown": 5}, "unknown option"),
    ],
)
def test_what_a_call_cannot_say_is_refused_with_advice(shop, options, advice):
    with pytest.raises(NotSupported, match=advice):
        shop.add.apply_async((1, 2), **options)


def test_the_canvas_is_refused_where_it_is_used(shop):
    for use in (shop.add.s, shop.add.si, shop.add.signature, shim.chain, shim.group, shim.chord, shim.signature):
        with pytest.raises(NotSupported, match="enqueue the next task"):
            use(1, 2)
    with pytest.raises(NotSupported, match="run_job"):
        shop.add.apply((1, 2))
    with pytest.raises(ImportError, match="use shared_task"):
        _ = shim.Celery


def test_self_says_what_it_has_not(shop):
    from django_vtasks.contrib.celery.bound import BoundTask

    bound = BoundTask(shop.fetch.celery, shop.fetch.module_path, None)
    for name in ("app", "backend"):
        with pytest.raises(AttributeError, match="request, retry"):
            getattr(bound, name)
    with pytest.raises(AttributeError, match="id, retries"):
        _ = bound.request.hostname
    with pytest.raises(NotSupported, match="enqueue another"):
        bound.retry(args=[1])
    with pytest.raises(AttributeError, match="task_result"):
        _ = AsyncResult("x").children


# -- beat -------------------------------------------------------------------------------------------------------------


def crontab(**fields):
    """What Celery's crontab object has, every field expanded."""
    full = {"minute": 60, "hour": 24, "day_of_week": 7}
    every = {name: set(range(count)) for name, count in full.items()}
    every |= {"day_of_month": set(range(1, 32)), "month_of_year": set(range(1, 13))}
    return SimpleNamespace(**every | fields)


BEAT = {
    "nightly": {"task": "reports.nightly", "schedule": crontab(minute={0}, hour={3}), "args": ("all",)},
    "quarterly": {"task": "a.b", "schedule": crontab(minute={0, 15, 30, 45}, day_of_week={1, 2, 3, 4, 5})},
    "often": {"task": "a.b", "schedule": 30.0, "kwargs": {"x": 1}, "options": {"queue": "mail", "priority": 9}},
    "hourly": {"task": "a.b", "schedule": timedelta(hours=1)},
    "object": {"task": "a.b", "schedule": SimpleNamespace(run_every=timedelta(minutes=5))},
    "text": {"task": "a.b", "schedule": "0 5 * * *"},
}


def test_a_beat_schedule_becomes_the_setting():
    moved = import_beat_schedule(BEAT, tasks={"reports.nightly": "shop.tasks.nightly"}, timezone="Europe/Berlin")
    assert moved == {
        "nightly": {
            "task": "shop.tasks.nightly",
            "schedule": "0 3 * * *",
            "args": ["all"],
            "timezone": "Europe/Berlin",
        },
        "quarterly": {"task": "a.b", "schedule": "*/15 * * * 1,2,3,4,5", "timezone": "Europe/Berlin"},
        "often": {
            "task": "a.b",
            "schedule": 30.0,
            "run_on_start": False,
            "kwargs": {"x": 1},
            "queue": "mail",
            "priority": 90,
        },
        "hourly": {"task": "a.b", "schedule": timedelta(hours=1), "run_on_start": False},
        "object": {"task": "a.b", "schedule": timedelta(minutes=5), "run_on_start": False},
        "text": {"task": "a.b", "schedule": "0 5 * * *", "timezone": "Europe/Berlin"},
    }
    assert parse(moved).problems == ()


def test_everything_that_cannot_be_moved_is_listed_at_once():
    solar = type("solar", (), {})()
    wrong = {
        "sun": {"task": "a.b", "schedule": solar},
        "both": {"task": "a.b", "schedule": crontab(day_of_week={1}, day_of_month={1})},
        "expiring": {"task": "a.b", "schedule": 5, "options": {"expires": 3}},
        "routed": {"task": "a.b", "schedule": 5, "options": {"exchange": "x"}},
        "named": {"task": "nightly", "schedule": 5},
        "relative": {"task": "a.b", "schedule": 5, "relative": True},
        "empty": {},
        "odd": {"task": "a.b", "schedule": object(), "sometimes": 1},
        "fine": {"task": "a.b", "schedule": 5},
    }
    with pytest.raises(ImproperlyConfigured) as failed:
        import_beat_schedule(wrong)
    text = str(failed.value)
    for name in wrong:
        assert (f"- '{name}'" in text) is (name != "fine")
    assert "check the sun" in text
    assert "Celery fires when both fit" in text
    assert "a task of its own" in text


@pytest.mark.django_db
def test_a_moved_schedule_fires(shop, settings):
    settings.VTASKS_SCHEDULE = import_beat_schedule(
        {
            "nightly": {
                "task": "reports.nightly",
                "schedule": crontab(minute={0}, hour={3}),
                "options": {"queue": "reports"},
            }
        },
        tasks={"reports.nightly": f"{shop.__name__}.nightly"},
    )
    with travel(datetime(2026, 5, 1, tzinfo=UTC)) as clock:
        clock.advance(timedelta(hours=3))
        assert [job.queue for job in fire_due()] == ["reports"]


def test_celerys_own_objects_are_understood():
    schedules = pytest.importorskip("celery.schedules")
    moved = import_beat_schedule(
        {
            "cron": {"task": "a.b", "schedule": schedules.crontab(minute="*/10", hour="8-10", day_of_week="mon-fri")},
            "often": {"task": "a.b", "schedule": schedules.schedule(30.0)},
        }
    )
    assert moved["cron"]["schedule"] == "*/10 8,9,10 * * 1,2,3,4,5"
    assert moved["often"]["schedule"] == timedelta(seconds=30)
    with pytest.raises(ImproperlyConfigured, match="check the sun"):
        import_beat_schedule({"sun": {"task": "a.b", "schedule": object.__new__(schedules.solar)}})


def test_a_settings_module_may_import_it():
    program = (
        "from django_vtasks.contrib.celery import configure, crontab, import_beat_schedule\n"
        "assert crontab(minute=0, hour=5) == '0 5 * * *'\n"
        "from django.conf import settings\n"
        "assert not settings.configured\n"
    )
    env = process_environment(PYTHONPATH="src")
    del env["DJANGO_SETTINGS_MODULE"]
    subprocess.run([sys.executable, "-c", program], check=True, env=env, timeout=60)
