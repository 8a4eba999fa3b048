"""Traces with the real SDK: one trace from the enqueue to the last attempt, on every store and every way in."""

from __future__ import annotations

import asyncio
import contextvars

import opentelemetry.baggage
import opentelemetry.context
import opentelemetry.trace
import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from django_vtasks.framework import task_backends
from django_vtasks.jobs.model import JobState
from django_vtasks.stores.base import JobFilter, Redrive
from django_vtasks.worker import Worker
from tests.django.conftest import entry
from tests.support import secretive_tasks
from tests.support import traced_tasks as tasks

QUEUES = {"default": {}, "batch": {"batch": {"count": 10, "timeout": 0.05}}}


class Spans:
    """What was exported so far."""

    def __init__(self, exporter):
        self._exporter = exporter

    def named(self, start):
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(start)]

    def one(self, start):
        [span] = self.named(start)
        return span


@pytest.fixture
def spans(monkeypatch):
    """A provider for this test alone: the API lets a process set one for good, which other tests would meet."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(opentelemetry.trace, "_TRACER_PROVIDER", provider)
    before = opentelemetry.trace.get_current_span()
    yield Spans(exporter)
    assert opentelemetry.trace.get_current_span() is before, "a span was left open in this context"


@pytest.fixture
def memory(settings):
    settings.TASKS = entry(QUEUES=[])
    settings.VTASKS_QUEUES = QUEUES
    return task_backends["default"]


def run_jobs():
    """What a worker in a process of its own does: nothing of the caller's context reaches it."""
    worker = Worker(task_backends["default"])
    contextvars.Context().run(asyncio.run, worker.run(handle_signals=False, run_once=True))


def enqueue(task, *args):
    task.enqueue(*args)


def aenqueue(task, *args):
    async_to_sync(task.aenqueue)(*args)


def enqueue_many(task, *args):
    task.get_backend().enqueue_many([(task, args, {})])


def aenqueue_many(task, *args):
    async_to_sync(task.get_backend().aenqueue_many)([(task, args, {})])


def trace_of(span):
    return span.get_span_context().trace_id


def is_child(span, parent):
    return span.parent is not None and span.parent.span_id == parent.get_span_context().span_id


@pytest.mark.parametrize("way", [enqueue, aenqueue, enqueue_many, aenqueue_many])
def test_enqueue_wait_and_attempt_are_one_trace_on_every_store(scene, spans, way):
    way(tasks.work, "x")
    run_jobs()
    sent, waited, ran = spans.one("enqueue "), spans.one("wait "), spans.one("run ")
    assert is_child(waited, sent)
    assert is_child(ran, sent)
    assert len({trace_of(span) for span in (sent, waited, ran)}) == 1
    assert (sent.kind, ran.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert waited.start_time <= waited.end_time <= ran.end_time
    assert sent.name == "enqueue tests.support.traced_tasks.work"
    assert ran.attributes["messaging.message.id"] == sent.attributes["messaging.message.id"]
    assert ran.attributes["vtasks.attempt"] == 1


def test_the_span_of_a_view_is_the_parent(memory, spans):
    with opentelemetry.trace.get_tracer("view").start_as_current_span("view"):
        tasks.awork.enqueue()
    run_jobs()
    assert is_child(spans.one("enqueue "), spans.one("view"))
    assert trace_of(spans.one("run ")) == trace_of(spans.one("view"))


@pytest.mark.django_db(transaction=True)
def test_a_job_that_waits_for_the_commit_keeps_the_trace_of_the_call(memory, spans):
    with transaction.atomic():
        tasks.work.enqueue()
    run_jobs()
    assert is_child(spans.one("run "), spans.one("enqueue "))


def test_a_job_enqueued_by_a_job_is_its_child(memory, spans):
    tasks.parent.enqueue()
    run_jobs()
    inner = spans.one("enqueue tests.support.traced_tasks.work")
    assert is_child(inner, spans.one("run tests.support.traced_tasks.parent"))
    assert is_child(spans.one("run tests.support.traced_tasks.work"), inner)


def test_every_attempt_is_a_span_of_the_same_trace_and_records_its_exception(memory, spans):
    tasks.fail.enqueue()
    run_jobs()
    attempts = spans.named("run ")
    assert [span.attributes["vtasks.attempt"] for span in attempts] == [1, 2]
    assert {trace_of(span) for span in attempts} == {trace_of(spans.one("enqueue "))}
    for span in attempts:
        assert span.status.status_code is StatusCode.ERROR
        [event] = span.events
        assert event.attributes["exception.type"] == "ValueError"
        assert event.attributes["exception.message"] == "no"
    first, second = spans.named("wait ")
    assert second.start_time >= first.end_time


def test_a_retry_by_an_operator_goes_on_in_the_trace(memory, spans):
    tasks.fail.enqueue()
    run_jobs()
    [letter] = memory.admin_store.page(JobFilter(state=JobState.DEAD)).records
    memory.admin_store.redrive([letter.job.id], Redrive())
    run_jobs()
    assert {trace_of(span) for span in spans.named("run ")} == {trace_of(spans.one("enqueue "))}
    assert len(spans.named("run ")) == 4


@pytest.mark.parametrize(
    ("task", "outcome"), [(tasks.retry, "retry"), (tasks.discard, "discard"), (tasks.snooze, "snooze")]
)
def test_a_wish_is_no_error(memory, spans, task, outcome):
    task.enqueue()
    run_jobs()
    for span in spans.named("run "):
        assert span.status.status_code is StatusCode.UNSET
        assert span.events == ()
        assert span.attributes["vtasks.outcome"] == outcome


def test_many_jobs_share_one_enqueue(memory, spans):
    memory.enqueue_many([(tasks.work, (), {}), (tasks.awork, (), {})])
    run_jobs()
    sent = spans.one("enqueue jobs")
    assert sent.attributes["messaging.batch.message_count"] == 2
    assert [is_child(span, sent) for span in spans.named("run ")] == [True, True]


def test_a_batch_links_to_the_enqueue_of_every_member(memory, spans):
    for _ in range(2):
        tasks.batch.using(queue_name="batch").enqueue({})
    run_jobs()
    sent = spans.named("enqueue ")
    ran = spans.one("run ")
    assert ran.parent is None
    assert {link.context.span_id for link in ran.links} == {span.get_span_context().span_id for span in sent}
    assert ran.attributes["messaging.batch.message_count"] == 2
    waited = spans.named("wait ")
    assert sorted(map(trace_of, waited)) == sorted(map(trace_of, sent))


def test_an_enqueue_that_is_refused_is_an_error(memory, spans):
    def broken(jobs):
        raise RuntimeError("away")

    memory.client_store.add = broken
    try:
        with pytest.raises(RuntimeError):
            tasks.work.enqueue()
    finally:
        del memory.client_store.add
    assert spans.one("enqueue ").status.status_code is StatusCode.ERROR


def test_a_span_in_which_the_worker_was_started_is_the_parent_of_no_job(memory, spans, monkeypatch):
    """As under a server whose start-up is traced."""
    tasks.work.enqueue()
    for _ in range(2):
        tasks.batch.using(queue_name="batch").enqueue({})
    with monkeypatch.context() as bare:
        bare.setattr(opentelemetry.trace, "_TRACER_PROVIDER", None)
        tasks.awork.enqueue()

    async def server():
        with opentelemetry.trace.get_tracer("server").start_as_current_span("server"):
            await Worker(memory).run(handle_signals=False, run_once=True)

    contextvars.Context().run(asyncio.run, server())
    around = trace_of(spans.one("server"))
    assert len(spans.named("run ")) == 3
    assert around not in {trace_of(span) for span in spans.named("run ")}


def test_baggage_travels_along(memory, spans):
    token = opentelemetry.context.attach(opentelemetry.baggage.set_baggage("tenant", "a"))
    try:
        with opentelemetry.trace.get_tracer("view").start_as_current_span("view"):
            tasks.carried.enqueue()
    finally:
        opentelemetry.context.detach(token)
    run_jobs()
    [record] = memory.admin_store.page(JobFilter(state=JobState.SUCCEEDED)).records
    assert record.value == b'"a"'


def payloads(backend):
    return [record.job.trace for record in backend.admin_store.page(JobFilter(state=JobState.READY)).records]


def test_without_a_provider_payloads_say_nothing_of_traces(memory):
    tasks.work.enqueue()
    assert payloads(memory) == [{}]


def test_a_job_that_is_not_traced_has_no_wait_and_begins_a_trace(memory, spans, monkeypatch):
    with monkeypatch.context() as bare:
        bare.setattr(opentelemetry.trace, "_TRACER_PROVIDER", None)
        tasks.work.enqueue()
    run_jobs()
    assert spans.named("wait ") == []
    assert spans.one("run ").parent is None


def test_tracing_leaves_nothing_behind_in_the_context(memory, spans):
    tasks.work.enqueue()
    async_to_sync(tasks.awork.aenqueue)()
    assert not opentelemetry.trace.get_current_span().get_span_context().is_valid


def test_the_exception_of_a_span_does_not_tell_what_is_hidden(memory, spans):
    for task in (secretive_tasks.transfer, secretive_tasks.chained):
        task.enqueue(10, "DE02120300000000202051")
        run_jobs()
        [event] = spans.named(f"run {task.module_path}")[0].events
        assert "[redacted]" in event.attributes["exception.stacktrace"]
        assert "ValueError" in event.attributes["exception.stacktrace"]
        assert event.attributes["exception.type"] == "ValueError"
        assert "DE0212" not in repr(dict(event.attributes))
