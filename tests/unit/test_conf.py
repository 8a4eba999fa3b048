"""Settings: where a value comes from, and what it is made into."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_vtasks import conf, task
from django_vtasks.conf import (
    CRON,
    DEFAULTS,
    ENV_TYPES,
    INTERVAL,
    BatchConfig,
    QueueConfig,
    WorkerConfig,
    classify_schedule,
    get_batch_queues,
    queue_configs,
    resolve_queue_config,
    vtasks_settings,
)
from django_vtasks.framework import InvalidTaskBackend
from django_vtasks.jobs.errors import InvalidOptions
from django_vtasks.jobs.limits import Concurrency
from django_vtasks.jobs.retries import Exponential, Fixed
from django_vtasks.scheduling.options import KEYS
from tests.django.conftest import MEMORY, entry
from tests.support.naming import shown
from tests.support.sample_tasks import plain

ours = conf.settings


def set_environment(monkeypatch, settings, name, value):
    """Set a variable, and forget what was read before."""
    monkeypatch.setenv(name, value)
    forget(settings, name)


def forget(settings, name):
    setattr(settings, name, object())
    delattr(settings, name)


# --- where a value comes from -----------------------------------------------------------------------------------


def test_both_names_are_one_object():
    assert vtasks_settings is conf.settings


def test_a_setting_wins_over_the_environment_and_that_over_the_default(monkeypatch, settings):
    assert ours.VTASKS_CONCURRENCY == 20
    set_environment(monkeypatch, settings, "VTASKS_CONCURRENCY", "7")
    assert ours.VTASKS_CONCURRENCY == 7
    settings.VTASKS_CONCURRENCY = 3
    assert ours.VTASKS_CONCURRENCY == 3
    settings.VTASKS_CONCURRENCY = None
    assert ours.VTASKS_CONCURRENCY == 7


def test_values_are_kept_until_a_setting_changes(monkeypatch, settings):
    set_environment(monkeypatch, settings, "VTASKS_DLQ_CAP", "5")
    assert ours.VTASKS_DLQ_CAP == 5
    monkeypatch.setenv("VTASKS_DLQ_CAP", "6")
    assert ours.VTASKS_DLQ_CAP == 5
    generation = ours.generation
    settings.DEBUG = True
    assert ours.generation > generation
    assert ours.VTASKS_DLQ_CAP == 5
    monkeypatch.delenv("VTASKS_DLQ_CAP")
    forget(settings, "VTASKS_DLQ_CAP")
    assert ours.VTASKS_DLQ_CAP == 1000


def test_unknown_names(monkeypatch, settings):
    assert ours.VTASKS_NO_SUCH_THING is None
    set_environment(monkeypatch, settings, "VTASKS_NO_SUCH_THING", "text")
    assert ours.VTASKS_NO_SUCH_THING == "text"
    forget(settings, "VTASKS_NO_SUCH_THING")
    with pytest.raises(AttributeError, match="VTASKS_"):
        _ = ours.CONCURRENCY
    assert not hasattr(ours, "__wrapped__")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("VTASKS_QUEUES", "a, b ,,c", ["a", "b", "c"]),
        ("VTASKS_QUEUES", '["a", "b"]', ["a", "b"]),
        ("VTASKS_QUEUES", ' {"a": {"weight": 2}}', {"a": {"weight": 2}}),
        ("VTASKS_RUN_SCHEDULER", "TRUE", True),
        ("VTASKS_RUN_SCHEDULER", "yes", True),
        ("VTASKS_RUN_SCHEDULER", "1", True),
        ("VTASKS_RUN_SCHEDULER", "on", False),
        ("VTASKS_RUN_SCHEDULER", "", False),
        ("VTASKS_SCHEDULE", '{"a": {"task": "x.y", "schedule": 5}}', {"a": {"task": "x.y", "schedule": 5}}),
        ("VTASKS_METRICS_PORT", "9100", 9100),
        ("VTASKS_SHUTDOWN_CANCEL_GRACE", "1.5", 1.5),
        ("VTASKS_HEARTBEAT_INTERVAL", "0.5", 0.5),
        ("VTASKS_WORKER_ID", "w1", "w1"),
        ("VTASKS_TASK_CONTEXT", "a.b", "a.b"),
        ("VTASKS_VALKEY_PREFIX", "{x}", "{x}:"),
    ],
)
def test_texts_of_the_environment(monkeypatch, settings, name, text, value):
    set_environment(monkeypatch, settings, name, text)
    assert getattr(ours, name) == value
    forget(settings, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("VTASKS_CONCURRENCY", "many"),
        ("VTASKS_QUEUES", "[broken"),
        ("VTASKS_SCHEDULE", "[1]"),
        ("VTASKS_SCHEDULE", "{"),
        ("VTASKS_RESULT_TTL", "soon"),
    ],
)
def test_unreadable_texts_leave_the_default_and_a_warning(monkeypatch, settings, caplog, name, text):
    set_environment(monkeypatch, settings, name, text)
    with caplog.at_level(logging.WARNING, logger="django_vtasks"):
        assert getattr(ours, name) == DEFAULTS[name]
    assert name in caplog.text
    forget(settings, name)


@pytest.mark.parametrize(("prefix", "used"), [("{vt}", "{vt}:"), ("vt:", "vt:"), ("", ""), ("a:b", "a:b:")])
def test_the_prefix_ends_with_a_colon(settings, prefix, used):
    settings.VTASKS_VALKEY_PREFIX = prefix
    assert used == ours.VTASKS_VALKEY_PREFIX


def test_every_setting_has_a_type_for_the_environment():
    assert DEFAULTS.keys() == ENV_TYPES.keys()


# --- queues -----------------------------------------------------------------------------------------------------


def test_queues_as_names_and_with_options(settings):
    settings.VTASKS_QUEUES = ["a", "b"]
    assert list(queue_configs().values()) == [QueueConfig(name="a"), QueueConfig(name="b")]
    settings.VTASKS_QUEUES = {
        "a": {"worker_concurrency": 3, "weight": 2, "result_ttl": 0, "max_attempts": 4, "timeout": 9},
        "b": {"batch": {"count": 10, "timeout": 0.5}},
        "c": None,
    }
    assert list(queue_configs().values()) == [
        QueueConfig(name="a", concurrency=3, weight=2, result_ttl=0.0, max_attempts=4, timeout=9.0),
        QueueConfig(name="b", batch=BatchConfig(count=10, timeout=0.5), result_ttl=0.0),
        QueueConfig(name="c"),
    ]
    assert get_batch_queues() == {"b": {"count": 10, "timeout": 0.5}}
    assert list(resolve_queue_config()) == ["a", "b", "c"]
    assert resolve_queue_config(["x"]) == {"x": {}}


@pytest.mark.parametrize(
    ("queues", "said"),
    [
        ("default", "list of names"),
        (5, "list of names"),
        ([5], "must be text"),
        ([""], "must be text"),
        ({"a": 5}, "dict of options"),
        ({"a": {"concurrency": 5}}, "worker_concurrency"),
        ({"a": {"wait": 5}}, "weight"),
        ({"a": {"worker_concurrency": 0}}, "at least 1"),
        ({"a": {"worker_concurrency": "3"}}, "must be a number"),
        ({"a": {"worker_concurrency": True}}, "must be a number"),
        ({"a": {"worker_concurrency": 1.5}}, "whole"),
        ({"a": {"batch": 5}}, "'count' and 'timeout'"),
        ({"a": {"batch": {"count": 5}}}, "'timeout'"),
        ({"a": {"batch": {"count": 5, "timeout": -1}}}, "at least 0"),
        ({"a": {"batch": {"count": 5, "timeout": float("nan")}}}, "finite"),
        ({"a": {"batch": {"count": 5, "timeout": 1, "on_failure": "x"}}}, "one_by_one"),
        ({"a": {"batch": {"count": 5, "timeout": 1, "size": 2}}}, "size"),
    ],
    ids=str,
)
def test_wrong_queues_are_refused_with_what_to_do(settings, queues, said):
    settings.VTASKS_QUEUES = queues
    assert task(plain).queue_name == "default", "tasks can be declared, so that the checks can run"
    for read in (queue_configs, resolve_queue_config, WorkerConfig.from_settings):
        with pytest.raises(ImproperlyConfigured, match=said):
            read()


# --- the worker -------------------------------------------------------------------------------------------------


def test_a_worker_without_settings():
    config = WorkerConfig.from_settings()
    assert (config.alias, config.queue_names, config.concurrency) == ("default", ("default",), 20)
    assert (config.lease_seconds, config.heartbeat_interval, config.rescue_interval) == (15.0, 5.0, 30.0)
    assert (config.result_ttl, config.retention.dead_letter_cap) == (86_400.0, 1000)
    assert config.worker_id
    assert (config.max_attempts, config.backoff) == (1, Exponential())


def test_what_the_settings_say_reaches_the_worker(settings):
    settings.TASKS = {**entry(MEMORY), "slow": {"BACKEND": MEMORY, "DLQ_CAP": 7}}
    settings.VTASKS_BACKEND = "slow"
    settings.VTASKS_QUEUES = {"a": {"worker_concurrency": 2}, "b": {}}
    settings.VTASKS_HEARTBEAT_INTERVAL = 2
    settings.VTASKS_RESULT_TTL = timedelta(minutes=1)
    settings.VTASKS_BACKOFF = 5
    settings.VTASKS_MAX_ATTEMPTS = 3
    settings.VTASKS_TASK_TIMEOUT = 8
    settings.VTASKS_DLQ_MAX_AGE = timedelta(days=1)
    settings.VTASKS_WORKER_ID = "w7"
    config = WorkerConfig.from_settings()
    assert (config.alias, config.queue_names, config.worker_id) == ("slow", ("a", "b"), "w7")
    assert (config.lease_seconds, config.result_ttl, config.timeout) == (6.0, 60.0, 8.0)
    assert (config.max_attempts, config.backoff) == (3, Fixed(seconds=5.0))
    assert (config.retention.dead_letter_cap, config.retention.dead_letter_age) == (7, 86_400.0)


def test_the_backend_decides_how_long_results_are_kept_where_nothing_else_does(settings):
    settings.TASKS = entry("django_vtasks.backends.valkey.ValkeyTaskBackend")
    assert WorkerConfig.from_settings().result_ttl == 600.0


def test_what_is_given_wins_and_none_is_not_given(settings):
    settings.VTASKS_CONCURRENCY = 5
    assert WorkerConfig.from_settings(concurrency=None).concurrency == 5
    config = WorkerConfig.from_settings("default", concurrency=2, worker_id="x", metrics_port=0, run_scheduler=True)
    assert (config.concurrency, config.worker_id, config.metrics_port, config.run_scheduler) == (2, "x", 0, True)


def test_named_queues_keep_their_options_and_a_star_means_all(settings):
    settings.TASKS = entry(MEMORY, QUEUES=["default", "mail"])
    settings.VTASKS_QUEUES = {"a": {"worker_concurrency": 2}, "b": {}}
    a, b = queue_configs().values()
    assert WorkerConfig.from_settings(queues=["a", "new", "a"]).queues == (a, QueueConfig(name="new"))
    every = WorkerConfig.from_settings(queues=["b", "*"]).queues
    assert every == (b, a, QueueConfig(name="default"), QueueConfig(name="mail"))


def test_every_problem_is_reported_at_once(settings):
    settings.VTASKS_CONCURRENCY = 0
    settings.VTASKS_SHUTDOWN_TIMEOUT = "soon"
    settings.VTASKS_BACKOFF = "sometimes"
    settings.VTASKS_METRICS_PORT = 99_999
    settings.VTASKS_LEASE_SECONDS = 1
    settings.VTASKS_QUEUES = {"a": {"weight": 0}}
    settings.VTASKS_HEALTH_CHECK_FILE = 5
    with pytest.raises(InvalidOptions) as caught:
        WorkerConfig.from_settings(colour="red")
    assert isinstance(caught.value, ImproperlyConfigured)
    names = ("CONCURRENCY", "SHUTDOWN_TIMEOUT", "BACKOFF", "METRICS_PORT", "LEASE_SECONDS", "weight", "FILE", "colour")
    assert [name for name in names if name not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"limit": {"cnt": 5}}, ["VTASKS_QUEUES['a']['limit']", "did you mean 'count'?", "{'count': 5}"]),
        ({"limit": 5}, ["VTASKS_QUEUES['a']['limit']", "{'count': 5}", "not 5"]),
        ({"limit": {"count": 0}}, ["VTASKS_QUEUES['a']['limit']", "at least 1", "{'count': 5}"]),
        ({"limit": {}}, ["needs 'count'", "{'count': 5}"]),
        ({"rate": {"per": 60}}, ["VTASKS_QUEUES['a']['rate']", "needs 'count'", "{'count': 100, 'per': 60}"]),
        ({"rate": {"count": 9, "per": "minute"}}, ["positive number of seconds", "{'count': 100, 'per': 60}"]),
        ({"rate": Concurrency(5)}, ["VTASKS_QUEUES['a']['rate']", "{'count': 100, 'per': 60}", "a Rate"]),
        ({"batch": {"cnt": 5, "timeout": 1}}, ["did you mean 'count'?", "needs 'count'"]),
        ({"batch": 5}, ["VTASKS_QUEUES['a']['batch']", "'count' and 'timeout'"]),
    ],
    ids=repr,
)
def test_a_wrong_option_of_a_queue_is_reported_with_what_to_write(settings, options, told):
    settings.VTASKS_QUEUES = {"a": options}
    with pytest.raises(ImproperlyConfigured) as caught:
        WorkerConfig.from_settings()
    assert [text for text in told if text not in str(caught.value)] == []


def test_an_unknown_alias_is_the_frameworks_error():
    with pytest.raises(InvalidTaskBackend):
        WorkerConfig.from_settings("nowhere")


def test_a_backoff_may_be_a_path(settings):
    settings.VTASKS_BACKOFF = "math.sqrt"
    import math

    assert WorkerConfig.from_settings().backoff is math.sqrt
    settings.VTASKS_BACKOFF = "no.such.module"
    with pytest.raises(ImproperlyConfigured, match="VTASKS_BACKOFF"):
        WorkerConfig.from_settings()


# --- schedules --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "kind"),
    [
        ("* * * * *", CRON),
        (5, INTERVAL),
        (0.5, INTERVAL),
        (timedelta(hours=1), INTERVAL),
        (0, None),
        (-1, None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        (None, None),
        ([], None),
    ],
    ids=shown,
)
def test_kinds_of_schedules(schedule, kind):
    assert classify_schedule(schedule) == kind


def test_the_keys_of_an_entry_are_those_that_are_read():
    assert set(KEYS) == conf.SCHEDULE_ENTRY_KEYS
