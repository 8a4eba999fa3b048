"""The Worker class: what a project that runs one itself sees."""

from __future__ import annotations

import asyncio
import signal

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_vtasks.conf import BatchConfig, QueueConfig, WorkerConfig
from django_vtasks.jobs.model import Claim, Job, Lease
from django_vtasks.jobs.transitions import Policy
from django_vtasks.stores.memory import MemoryStore
from django_vtasks.tasks import result_from
from django_vtasks.worker import Worker
from django_vtasks.worker.policies import Policies
from tests.support.waiting import aeventually


class Backend:
    """A backend over the memory store."""

    alias = "default"

    def __init__(self):
        self.store = MemoryStore()

    def new_worker_store(self):
        return self.store

    def result_from(self, record):
        return result_from(record, self.alias)

    def add(self, **fields):
        [added] = self.store.add([Job(**({"id": self.store.new_id(), "func": "tests.project.tasks.add"} | fields))])
        return added.job_id


def config(**fields):
    return WorkerConfig(**({"worker_id": "w", "heartbeat_interval": 0.5} | fields))


@pytest.fixture
def backend():
    return Backend()


async def test_running_once_drains_what_is_due(backend):
    jobs = [backend.add(args=[number, 1]) for number in range(30)]
    await Worker(backend, config=config()).run(run_once=True)
    assert [backend.store.get(job).value for job in jobs] == [str(number + 1).encode() for number in range(30)]


async def test_running_once_runs_sync_functions_too(backend):
    jobs = [backend.add(func="tests.project.tasks.add_in_thread", args=[number, 1]) for number in range(30)]
    await Worker(backend, config=config()).run(run_once=True)
    assert {backend.store.get(job).state for job in jobs} == {"succeeded"}


async def test_stopping_waits_for_the_end_and_may_be_asked_for_again(backend):
    worker = Worker(backend, config=config())
    running = asyncio.create_task(worker.run(handle_signals=False))
    await aeventually(lambda: worker.runtime is not None and worker.runtime.keeper.held)
    await asyncio.wait_for(asyncio.gather(worker.stop(), worker.stop()), 10)
    await asyncio.wait_for(running, 10)
    await worker.stop()


async def test_a_worker_that_was_stopped_before_it_ran_does_not_run(backend):
    job = backend.add(args=[1, 2])
    worker = Worker(backend, config=config())
    await worker.stop()
    await asyncio.wait_for(worker.run(), 10)
    assert backend.store.get(job).state == "ready"


async def test_the_signal_handlers_of_the_process_are_put_back(backend):
    before = signal.getsignal(signal.SIGTERM)
    await Worker(backend, config=config()).run(run_once=True)
    assert signal.getsignal(signal.SIGTERM) == before


async def test_a_signal_stops_the_worker(backend):
    worker = Worker(backend, config=config())
    running = asyncio.create_task(worker.run())
    await aeventually(lambda: worker.runtime is not None and worker.runtime.keeper.held)
    signal.raise_signal(signal.SIGTERM)
    await asyncio.wait_for(running, 10)


async def test_a_worker_runs_once(backend):
    worker = Worker(backend, config=config())
    await worker.run(run_once=True)
    with pytest.raises(RuntimeError, match="make another"):
        await worker.run()


def test_the_arguments_of_the_3_2_line_are_understood(settings):
    settings.VTASKS_QUEUES = {"a": {"worker_concurrency": 2}}
    worker = Worker(
        Backend(),
        queues=["a", "b"],
        concurrency=7,
        batch_config={"b": {"count": 5, "timeout": 0.5}},
        health_check_file="somewhere",
    )
    assert worker.config.queues == (
        QueueConfig(name="a", concurrency=2),
        QueueConfig(name="b", batch=BatchConfig(count=5, timeout=0.5), result_ttl=0.0),
    )
    assert (worker.config.concurrency, worker.config.health_check_file) == (7, "somewhere")


@pytest.mark.parametrize("value", ["nowhere.to.be.found", 5])
def test_a_task_context_that_is_none_is_refused_when_the_worker_is_made(value):
    with pytest.raises(ImproperlyConfigured, match="VTASKS_TASK_CONTEXT"):
        Worker(Backend(), config=config(task_context=value))


async def test_what_a_job_says_of_itself_is_saved_while_it_runs_and_with_its_result(backend):
    job = backend.add(func="tests.project.tasks.tell_and_wait", args=["1 of 2"])
    worker = Worker(backend, config=config())
    running = asyncio.create_task(worker.run(handle_signals=False))
    await aeventually(lambda: backend.store.get(job).progress is not None)
    assert backend.store.get(job).progress.message == "1 of 2"
    assert backend.store.get(job).state == "leased"
    backend.store.cancel(job)
    await aeventually(lambda: backend.store.get(job).state == "dead")
    assert backend.store.get(job).progress.message == "1 of 2"
    await worker.stop()
    await running


async def test_the_last_word_of_a_job_is_saved_however_short_it_was(backend):
    job = backend.add(func="tests.project.tasks.tell", args=["done"])
    await Worker(backend, config=config()).run(run_once=True)
    record = backend.store.get(job)
    assert (record.state, record.progress.message) == ("succeeded", "done")


def claim(func, queue="default"):
    job = Job(id="1", func=func, queue=queue) if func else None
    return Claim(lease=Lease(job_id="1", token="t", owner="o"), raw=b"", queue=queue, started_at=0.0, job=job)


def test_a_policy_comes_from_the_task_or_from_the_queue_when_there_is_none():
    policies = Policies(Policy(max_attempts=1, result_ttl=50.0), {"ingest": 0.0})
    assert policies.of(claim("tests.project.tasks.add")).max_attempts == 1
    assert policies.of(claim("not.there")).result_ttl == 50.0
    assert policies.of(claim("not.there", "ingest")).result_ttl == 0.0
    assert policies.of(claim(None, "ingest")).result_ttl == 0.0
