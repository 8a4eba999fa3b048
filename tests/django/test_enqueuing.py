"""Enqueuing over any store: statements B 18 to 32, and many at once."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import logging
import uuid

import pytest
from asgiref.sync import async_to_sync
from django.dispatch import receiver
from django.utils.translation import gettext_lazy

from django_vtasks.events import JobAdded, events
from django_vtasks.framework import (
    LOGGER_NAME,
    InvalidTaskBackend,
    TaskResultStatus,
    is_heard,
    normalize_json,
    task_backends,
    task_enqueued,
)
from django_vtasks.jobs.errors import JobTooLarge, StoreUnavailable
from django_vtasks.jobs.model import JobState
from django_vtasks.stores.base import JobFilter
from tests.django.conftest import MEMORY, entry
from tests.support import sample_tasks as sample
from tests.support.backends import MemoryBackend
from tests.support.naming import shown


def enqueue(task, *args, **kwargs):
    return task.enqueue(*args, **kwargs)


def aenqueue(task, *args, **kwargs):
    return asyncio.run(task.aenqueue(*args, **kwargs))


def enqueue_many(task, *args, **kwargs):
    (result,) = task.get_backend().enqueue_many([(task, args, kwargs)])
    return result


def aenqueue_many(task, *args, **kwargs):
    (result,) = asyncio.run(task.get_backend().aenqueue_many([(task, args, kwargs)]))
    return result


WAYS = pytest.mark.parametrize("way", [enqueue, aenqueue, enqueue_many, aenqueue_many])


@WAYS
@pytest.mark.parametrize("one", [sample.bare, sample.abare, sample.of_django])
def test_the_result_of_a_fresh_job(way, one, memory):
    """B 18, B 19, B 24."""
    result = way(one, 1)
    assert result.status == TaskResultStatus.READY
    assert not result.is_finished
    assert (result.attempts, result.errors, result.worker_ids) == (0, [], [])
    assert result.started_at is result.finished_at is result.last_attempted_at is None
    assert result.enqueued_at.tzinfo is datetime.UTC
    assert 0 < len(result.id) < 64
    assert result.id != way(one, 1).id
    assert (result.backend, result.task) == ("default", one)


@WAYS
def test_arguments_are_shown_as_the_function_will_receive_them(way, memory):
    """B 20."""
    result = way(sample.bare, [1, (2, 3)], b={"x": {"y": None}, "z": 1.5})
    assert (result.args, result.kwargs) == ([[1, [2, 3]]], {"b": {"x": {"y": None}, "z": 1.5}})
    assert normalize_json(result.args) == result.args
    record = memory.get(result.id)
    assert (record.job.args, record.job.kwargs) == (result.args, result.kwargs)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    at: datetime.date


MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC)


@pytest.mark.parametrize(
    ("value", "received"),
    [
        (MOMENT, "2026-01-02T03:04:05.000006+00:00"),
        (MOMENT.date(), "2026-01-02"),
        (MOMENT.time(), "03:04:05.000006"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        (Point(1, MOMENT.date()), {"x": 1, "at": "2026-01-02"}),
        ((1, [2]), [1, [2]]),
        (2**63, 2**63),
        (-(2**63), -(2**63)),
        ("\x00 é 🙂", "\x00 é 🙂"),
        (None, None),
        ("null", "null"),
    ],
    ids=shown,
)
def test_values_with_a_json_form_are_accepted(value, received, memory):
    """B 22 for NUL; dates, UUIDs, enums and dataclasses as in the 3.2 line."""
    assert sample.bare.enqueue(value).args == [received]
    assert sample.bare.enqueue(b={"deep": [value]}).kwargs == {"b": {"deep": [received]}}


class Weird:
    pass


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        decimal.Decimal("1.5"),
        b"bytes",
        gettext_lazy("lazy"),
        Weird(),
        2**64,
        -(2**63) - 1,
        {1: "integer key"},
        "\ud800",
        {"\udfff": 1},
        lambda: None,
    ],
    ids=shown,
)
@WAYS
def test_values_without_a_json_form_are_refused_by_name_and_nothing_is_stored(way, value, memory):
    """B 21, B 22, B 23."""
    with pytest.raises(TypeError, match=r"argument b\['deep'\]\[1\].* of tests.support.sample_tasks.bare"):
        way(sample.bare, 1, b={"deep": [0, value]})
    with pytest.raises(TypeError, match="argument a "):
        way(sample.bare, value)
    assert memory.counts() == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@WAYS
def test_numbers_json_cannot_express_are_refused(way, value, memory):
    """B 22."""
    with pytest.raises(ValueError, match=r"argument a\[1\]"):
        way(sample.bare, [None, value])
    with pytest.raises(ValueError, match=r"argument a\.x"):
        way(sample.bare, Point(value, None))
    assert memory.counts() == []


def test_a_structure_that_contains_itself_is_refused(memory):
    value = []
    value.append(value)
    with pytest.raises(TypeError, match="sample_tasks"):
        sample.bare.enqueue(value)


@WAYS
def test_arguments_that_do_not_fit_the_function_are_refused(way, memory):
    for args, kwargs in [((1, 2, 3), {}), ((1,), {"a": 1}), ((), {"c": 1})]:
        with pytest.raises(TypeError, match="sample_tasks"):
            way(sample.bare, *args, **kwargs)
    with pytest.raises(TypeError, match="order_id"):
        way(sample.of_order)
    assert way(sample.with_context, 5).args == [5]
    with pytest.raises(TypeError):
        way(sample.with_context, 5, 6)
    assert len(memory.page(JobFilter(state=JobState.READY)).records) == 1


def test_parameters_named_like_options_receive_their_values(memory):
    result = sample.queue_name.enqueue(ttl=1, unique=2, queue_name="x")
    job = memory.get(result.id).job
    assert job.kwargs == {"ttl": 1, "unique": 2, "queue_name": "x"}
    assert (job.queue, job.unique) == ("default", None)


def test_too_large_arguments_are_refused_with_their_size(settings, memory):
    settings.VTASKS_MAX_JOB_BYTES = 100
    with pytest.raises(JobTooLarge, match="107 bytes"):
        sample.bare.enqueue("x" * 98)
    assert sample.bare.enqueue("x" * 90) is not None


@pytest.fixture
def heard():
    """What the framework's signal told, one (sender, result) each."""
    told = []

    @receiver(task_enqueued, weak=False, dispatch_uid="heard")
    def note(sender, task_result, **_kwargs):
        told.append((sender, task_result))

    yield told
    task_enqueued.disconnect(dispatch_uid="heard")


@WAYS
def test_the_signal_is_sent_once_after_storing_with_the_backends_class(way, memory, heard):
    """B 26."""
    result = way(sample.bare, 1)
    ((sender, told),) = heard
    assert sender is MemoryBackend
    assert told is result
    assert memory.get(told.id) is not None


@WAYS
def test_a_raising_receiver_does_not_make_a_stored_job_look_unstored(way, memory, heard, caplog):
    """B 27."""

    @receiver(task_enqueued, weak=False, dispatch_uid="raising")
    def raising(**_kwargs):
        raise RuntimeError("receiver")

    try:
        result = way(sample.bare, 1)
    finally:
        task_enqueued.disconnect(dispatch_uid="raising")
    assert memory.get(result.id) is not None
    assert len(heard) == 1
    assert "receiver" in caplog.text


def test_async_receivers_are_awaited(memory):
    told = []

    async def note(task_result, **_kwargs):
        told.append(task_result.id)

    task_enqueued.connect(note)
    try:
        results = [sample.bare.enqueue(), asyncio.run(sample.bare.aenqueue())]
    finally:
        task_enqueued.disconnect(note)
    assert told == [result.id for result in results]


@WAYS
def test_one_debug_record_names_the_id(way, memory, caplog):
    """B 28."""
    with caplog.at_level(logging.DEBUG, logger=LOGGER_NAME):
        result = way(sample.bare, 1)
    (record,) = [record for record in caplog.records if record.name == LOGGER_NAME]
    assert record.levelno == logging.DEBUG
    assert result.id in record.getMessage()


def test_a_signal_nobody_hears_is_not_sent(memory, caplog, heard):
    assert is_heard(task_enqueued)
    task_enqueued.disconnect(dispatch_uid="heard")
    with caplog.at_level(logging.INFO, logger=LOGGER_NAME):
        assert not is_heard(task_enqueued)
        assert is_heard(task_enqueued, level=logging.ERROR)
    with caplog.at_level(logging.DEBUG, logger=LOGGER_NAME):
        assert is_heard(task_enqueued)


def test_unknown_aliases_and_backends_are_refused(settings, memory):
    """B 31."""
    with pytest.raises(InvalidTaskBackend):
        sample.bare.using(backend="nowhere")
    settings.TASKS = entry("django_vtasks.backends.missing.Backend")
    with pytest.raises(InvalidTaskBackend):
        sample.bare.enqueue()
    settings.TASKS = {}
    with pytest.raises(InvalidTaskBackend):
        sample.bare.enqueue()


def test_the_job_carries_what_its_task_says(memory, settings):
    settings.VTASKS_MAX_RESCUES = 4
    result = sample.expiring.using(priority=5).enqueue()
    job = memory.get(result.id).job
    assert job.expires_at == pytest.approx(job.enqueued_at + 60)
    assert (job.result_ttl, job.priority, job.max_rescues, dict(job.metadata)) == (5.0, 5, 4, {"who": "tests"})
    assert memory.get(sample.bare.using(max_rescues=0).enqueue().id).job.max_rescues == 0
    assert memory.get(sample.bare.enqueue().id).job.result_ttl is None


def test_expiry_counts_from_when_the_job_is_due(memory):
    due = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    late = sample.bare.using(run_after=due, expires=datetime.timedelta(minutes=1))
    assert memory.get(late.enqueue().id).job.expires_at == pytest.approx(due.timestamp() + 60)
    at = sample.bare.using(expires=due)
    assert memory.get(at.enqueue().id).job.expires_at == pytest.approx(due.timestamp())


def test_a_queues_own_result_time_travels_with_its_jobs(memory, settings):
    settings.VTASKS_QUEUES = {"default": {"result_ttl": 7}, "ingest": {"batch": {"count": 5, "timeout": 1}}}
    assert memory.get(sample.bare.enqueue().id).job.result_ttl == 7
    assert sample.bare.using(queue_name="ingest").enqueue(1, 2).task.queue_name == "ingest"
    (record,) = memory.page(JobFilter(state=JobState.READY, queue="ingest")).records
    assert record.job.result_ttl == 0


# --- many at once -----------------------------------------------------------------------------------------------


def many(backend, calls):
    return backend.enqueue_many(calls)


def amany(backend, calls):
    return async_to_sync(backend.aenqueue_many)(calls)


BULK = pytest.mark.parametrize("bulk", [many, amany])


@BULK
def test_bulk_keeps_the_order_and_counts_duplicates_as_none(bulk, memory):
    backend = task_backends["default"]
    due = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    calls = [
        (sample.bare, (1,), {}),
        (sample.mutex, (2,), {}),
        (sample.mutex, (2,), {}),
        (sample.bare.using(run_after=due), (), {"a": 3}),
    ]
    results = bulk(backend, calls)
    assert [result and result.args for result in results] == [[1], [2], None, []]
    assert memory.get(results[3].id).state is JobState.SCHEDULED
    assert sample.mutex.enqueue(2) is None


@BULK
def test_bulk_of_nothing_is_nothing(bulk, memory):
    assert bulk(task_backends["default"], []) == []


@BULK
def test_bulk_takes_triples_from_any_iterable(bulk, memory):
    results = bulk(task_backends["default"], ((sample.bare, (i,), {}) for i in range(1200)))
    assert [result.args for result in results] == [[i] for i in range(1200)]
    assert memory.counts()[0].ready == 1200
    with pytest.raises(ValueError, match="triples"):
        bulk(task_backends["default"], [(sample.bare, (1,))])
    with pytest.raises(ValueError, match="triples"):
        bulk(task_backends["default"], [5])


@BULK
def test_one_invalid_call_of_many_stores_nothing(bulk, memory):
    with pytest.raises(TypeError):
        bulk(task_backends["default"], [(sample.bare, (1,), {}), (sample.bare, ({1},), {})])
    assert memory.counts() == []


@BULK
def test_a_store_that_fails_midway_says_how_far_it_came(bulk, memory, monkeypatch):
    calls, add = [], memory.add

    def failing(jobs):
        calls.append(len(jobs))
        if len(calls) == 2:
            raise StoreUnavailable("gone")
        return add(jobs)

    monkeypatch.setattr(memory, "add", failing)
    with pytest.raises(StoreUnavailable) as caught:
        bulk(task_backends["default"], [(sample.bare, (i,), {}) for i in range(1200)])
    assert caught.value.__notes__ == ["500 of the 1200 jobs were stored before this error."]
    assert memory.counts()[0].ready == 500


def test_subscribers_hear_of_every_job(memory):
    told = []
    stop = events.subscribe(JobAdded, told.append)
    try:
        first = sample.mutex.enqueue(1)
        assert sample.mutex.enqueue(1) is None
    finally:
        stop()
    assert [(event.duplicate, event.duplicate_of) for event in told] == [(False, None), (True, first.id)]
    assert (told[0].job_id, told[0].alias, told[0].queue) == (first.id, "default", "default")


def test_backends_of_threads_share_one_store(memory):
    """H 105."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(sample.bare.enqueue, range(40)))
    assert len({result.id for result in results}) == 40
    assert memory.counts()[0].ready == 40


def test_an_override_of_the_setting_takes_effect_at_once_and_is_undone(settings, memory):
    """I 115."""
    sample.bare.enqueue()
    settings.TASKS = entry(MEMORY, QUEUES=["default", "b"])
    assert task_backends["default"].client_store is not memory
    assert task_backends["default"].client_store.counts() == []
