"""What a project on the Celery shim has left of Celery that does nothing any more, and how its tests replace tasks."""

from __future__ import annotations

import builtins
import importlib
import sys
from types import ModuleType
from unittest import mock

import pytest
from django.core import checks

from django_vtasks.contrib import celery as shim
from django_vtasks.contrib.celery import NotSupported, Retry, shared_task
from django_vtasks.contrib.celery.leftovers import SETTINGS, leftovers
from django_vtasks.operating.doctor import diagnose
from django_vtasks.testing import drain, enqueued


@shared_task
def send(address):
    return f"sent to {address}"


@shared_task(bind=True)
def invite(self, address):
    try:
        send.delay(address)
    except OSError as exc:
        raise self.retry(exc=exc) from exc
    return self.request.called_directly


@pytest.fixture(autouse=True)
def jobs_in_memory(settings):
    settings.TASKS = {"default": {"BACKEND": "django_vtasks.backends.memory.MemoryTaskBackend", "QUEUES": []}}


def texts():
    return [str(message.msg) for message in leftovers()]


# -- settings ---------------------------------------------------------------------------------------------------------


def test_a_project_without_leftovers_hears_nothing(settings):
    settings.CELERY_BROKER_URL = "redis://localhost"
    settings.CELERY_TASK_ALWAYS_EAGER = False
    assert leftovers() == []


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_is_not_read_is_named_with_what_to_do(settings, name):
    setattr(settings, f"CELERY_{name}", {"shop.tasks.*": {"queue": "reports"}})
    (message,) = leftovers()
    assert f"CELERY_{name} has no effect" in message.msg
    assert message.hint == SETTINGS[name]


@pytest.mark.parametrize(("queue", "told"), [("celery", 1), ("default", 0)])
def test_a_default_queue_of_another_name_is_told(settings, queue, told):
    settings.CELERY_TASK_DEFAULT_QUEUE = queue
    assert len(leftovers()) == told


def test_an_entry_of_the_beat_schedule_that_was_not_moved_is_named(settings):
    settings.CELERY_BEAT_SCHEDULE = {"moved": {}, "forgotten": {}}
    settings.VTASKS_SCHEDULE = {"moved": {"task": "a.b", "schedule": 60}}
    assert texts() == ["The entry 'forgotten' of CELERY_BEAT_SCHEDULE is not in VTASKS_SCHEDULE."]


@pytest.mark.django_db
def test_checks_and_doctor_say_it(settings):
    settings.CELERY_TASK_ROUTES = {"shop.tasks.*": {"queue": "reports"}}
    assert "django_vtasks.W015" in [message.id for message in checks.run_checks(tags=["vtasks"])]
    assert [finding.hint for finding in diagnose().project if "CELERY_TASK_ROUTES" in finding.text] == [
        SETTINGS["TASK_ROUTES"]
    ]


def test_a_schedule_entry_whose_task_is_celerys_still_says_so(settings, monkeypatch):
    """The first step of the guide imports the schedule, the second one the decorator."""
    proxy = pytest.importorskip("celery.local").Proxy  # what its shared_task returns
    settings.VTASKS_SCHEDULE = {"nightly": {"task": f"{__name__}.left", "schedule": 60}}
    monkeypatch.setattr(sys.modules[__name__], "left", proxy(object), raising=False)
    (problem,) = [message for message in checks.run_checks(tags=["vtasks"]) if message.id == "django_vtasks.W003"]
    assert "left' is a celery.local.Proxy and no Task" in problem.msg


# -- signals ----------------------------------------------------------------------------------------------------------


def test_receivers_of_signals_that_nobody_sends_are_named():
    signals = pytest.importorskip("celery.signals")

    def note(**_named): ...

    signals.task_postrun.connect(note)
    signals.worker_ready.connect(note)
    try:
        found = leftovers()
    finally:
        signals.task_postrun.disconnect(note)
        signals.worker_ready.disconnect(note)
    assert [message.id for message in found] == ["django_vtasks.W016"] * 2
    assert all(f"{__name__}.{note.__qualname__} receives" in message.msg for message in found)
    assert "task_finished, task_failure and task_retried" in found[0].hint
    assert "no such signal" in found[1].hint


def test_what_celery_connects_itself_is_no_receiver_of_the_project():
    """`autodiscover_tasks()` of the app that a project still has connects a promise."""
    signals, vine = pytest.importorskip("celery.signals"), pytest.importorskip("vine")
    known = list(signals.import_modules.receivers)
    signals.import_modules.connect(vine.promise(print), weak=False)
    try:
        assert len(signals.import_modules.receivers) > len(known)
        assert leftovers() == []
    finally:
        signals.import_modules.receivers[:] = known


def test_without_celery_there_are_none(monkeypatch):
    monkeypatch.delitem(sys.modules, "celery.signals", raising=False)
    assert leftovers() == []


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Celery", "no app object"),
        ("Task", "no task classes"),
        ("current_task", "bind=True"),
        ("Ignore", "Discard"),
        ("SoftTimeLimitExceeded", r"self\.context\.check"),
    ],
)
def test_an_import_of_what_is_not_there_says_what_to_do(name, advice):
    with pytest.raises(ImportError, match=advice):
        exec(f"from django_vtasks.contrib.celery import {name}")


def test_names_that_nobody_knows_are_missing_as_from_any_module():
    assert not hasattr(shim, "no_such_name")
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        exec("from django_vtasks.contrib.celery import no_such_name")


def test_every_name_of_the_shim_can_be_imported():
    for name in shim.__all__:
        assert getattr(importlib.import_module(shim.__name__), name) is not None


def test_what_tasks_import_from_celery_beside_the_decorator_is_there():
    from django_vtasks.contrib.celery import TimeoutError, get_task_logger  # noqa: A004

    assert get_task_logger("shop").name == "shop"
    assert issubclass(Retry, Exception)
    assert TimeoutError is builtins.TimeoutError


# -- tests of the project ---------------------------------------------------------------------------------------------


def test_a_mock_may_stand_for_delay_and_is_gone_afterwards():
    with mock.patch(f"{__name__}.send.delay") as delay:
        assert invite("ada@example.com") is True
        delay.assert_called_once_with("ada@example.com")
        assert enqueued() == []
    assert send.delay("ada@example.com") is not None
    assert len(enqueued(send)) == 1


def test_a_mock_of_apply_async_sees_delay_too():
    with mock.patch.object(send, "apply_async") as apply_async:
        send.delay("ada@example.com")
    apply_async.assert_called_once_with(("ada@example.com",), {})


def test_a_task_that_runs_in_a_worker_meets_the_mock():
    invite.delay("ada@example.com")
    with mock.patch.object(send, "delay") as delay:
        drain(raise_failures=True)
    delay.assert_called_once_with("ada@example.com")


def test_a_mock_may_stand_for_retry_in_a_call():
    with (
        mock.patch.object(send, "delay", side_effect=OSError("down")),
        mock.patch.object(invite, "retry", side_effect=Retry) as retry,
        pytest.raises(Retry),
    ):
        invite("ada@example.com")
    assert isinstance(retry.call_args.kwargs["exc"], OSError)
    with pytest.raises(NotSupported, match="bind=True"):
        invite.retry()


@pytest.mark.parametrize("name", ["func", "priority", "enqueue", "run"])
def test_nothing_else_of_a_task_can_be_replaced(name):
    with pytest.raises(AttributeError, match=f"cannot assign to '{name}'"):
        setattr(send, name, ModuleType("x"))
    with pytest.raises(AttributeError, match=f"cannot delete '{name}'"):
        delattr(send, name)


def test_run_is_the_function_itself():
    assert send.run("ada@example.com") == "sent to ada@example.com"
    with mock.patch.object(send, "delay"):
        assert invite.run("ada@example.com") is True
