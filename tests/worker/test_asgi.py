"""The embedded worker and the lifespan protocol: start-up answers, shutdown answers, nothing hangs."""

from __future__ import annotations

import asyncio
import signal

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_vtasks.asgi import WorkerMiddleware, get_worker_application, worker_lifespan
from django_vtasks.asgi import embedded as embedding
from django_vtasks.conf import WorkerConfig
from django_vtasks.jobs.model import Job
from django_vtasks.stores.memory import MemoryStore
from django_vtasks.tasks import result_from
from django_vtasks.worker import Worker
from django_vtasks.worker.service import WhenCrashed
from tests.support.waiting import aeventually, let_others_run


class Backend:
    """A backend over the memory store."""

    alias = "default"

    def __init__(self, store):
        self.store = store

    def new_worker_store(self):
        return self.store

    def result_from(self, record):
        return result_from(record, self.alias)


class Server:
    """The server's side of the lifespan: feeds messages through a queue, collects the answers."""

    def __init__(self, app):
        self.inbox: asyncio.Queue = asyncio.Queue()
        self.answers: list[dict] = []
        self.task = asyncio.create_task(app({"type": "lifespan"}, self.inbox.get, self._send))

    async def _send(self, message):
        self.answers.append(message)

    async def say(self, kind):
        expected = len(self.answers) + 1
        await self.inbox.put({"type": kind})
        await aeventually(lambda: len(self.answers) >= expected)
        return self.answers[-1]


@pytest.fixture
def made(monkeypatch):
    """Workers made so far, all on one memory store."""
    store = MemoryStore()
    workers: list[Worker] = []

    def make():
        config = WorkerConfig(worker_id="embedded", concurrency=2, heartbeat_interval=0.5, shutdown_timeout=10)
        worker = Worker(Backend(store), config=config)
        worker.when_crashed = WhenCrashed.RESTART
        workers.append(worker)
        return worker

    monkeypatch.setattr(embedding, "_made", make)
    make.workers = workers
    make.store = store
    return make


async def inner(scope, receive, send):
    if scope["type"] == "lifespan":
        raise ValueError("Django can only handle ASGI/HTTP connections, not lifespan.")
    await send({"type": "http.response.body"})


def add(store):
    [added] = store.add([Job(id=store.new_id(), func="missing.task")])
    return added.job_id


async def until_dead(store, job):
    await aeventually(lambda: store.get(job).state == "dead")


async def test_the_worker_lives_between_startup_and_shutdown(made):
    server = Server(get_worker_application(inner))
    assert (await server.say("lifespan.startup"))["type"] == "lifespan.startup.complete"
    await until_dead(made.store, add(made.store))
    assert (await server.say("lifespan.shutdown"))["type"] == "lifespan.shutdown.complete"
    await asyncio.wait_for(server.task, 10)
    assert made.store.workers() == []


async def test_the_start_is_told_in_one_line(made, caplog):
    with caplog.at_level("INFO", logger="django_vtasks.worker"):
        async with worker_lifespan():
            await aeventually(lambda: "embedded worker" in caplog.text)
    assert "queues default" in caplog.text
    assert "scheduler off" in caplog.text


async def test_the_lifespan_is_not_passed_on_and_requests_are(made):
    sent = []

    async def send(message):
        sent.append(message)

    app = get_worker_application(inner)
    server = Server(app)
    await server.say("lifespan.startup")
    await app({"type": "http", "path": "/"}, server.inbox.get, send)
    assert sent == [{"type": "http.response.body"}]
    await server.say("lifespan.shutdown")


async def test_wrong_settings_fail_the_startup_with_the_reason(monkeypatch):
    def make():
        raise ImproperlyConfigured("VTASKS_QUEUES is wrong")

    monkeypatch.setattr(embedding, "_made", make)
    server = Server(get_worker_application(inner))
    answer = await server.say("lifespan.startup")
    assert answer["type"] == "lifespan.startup.failed"
    assert "VTASKS_QUEUES is wrong" in answer["message"]
    await asyncio.wait_for(server.task, 10)


async def test_a_store_that_is_away_does_not_keep_the_server_from_starting(made, monkeypatch):
    from django_vtasks.jobs.errors import StoreUnavailable

    async def away():
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(made.store, "open", away)
    server = Server(get_worker_application(inner))
    assert (await server.say("lifespan.startup"))["type"] == "lifespan.startup.complete"
    assert (await server.say("lifespan.shutdown"))["type"] == "lifespan.shutdown.complete"


async def test_a_dispatcher_that_cancels_after_the_shutdown_is_not_held_up(made, caplog):
    server = Server(get_worker_application(inner))
    await server.say("lifespan.startup")
    await server.say("lifespan.shutdown")
    server.task.cancel()
    await asyncio.wait([server.task], timeout=10)
    assert server.task.done()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_dispatcher_that_cancels_without_a_shutdown_ends_the_worker(made):
    server = Server(get_worker_application(inner))
    await server.say("lifespan.startup")
    await aeventually(lambda: made.workers[0].runtime is not None and made.workers[0].runtime.keeper.held)
    server.task.cancel()
    await asyncio.wait([server.task], timeout=10)
    assert server.task.cancelled()
    assert not any(task.get_name().startswith("vtasks") for task in asyncio.all_tasks())


async def test_a_crashed_worker_is_started_again(made, monkeypatch, caplog):
    monkeypatch.setattr(embedding.random, "uniform", lambda *_: 0.01)
    server = Server(get_worker_application(inner))
    await server.say("lifespan.startup")
    await aeventually(lambda: made.workers[0].runtime is not None)
    made.workers[0].runtime._supervisor.fail("the lease thread", ZeroDivisionError("a defect"))
    await aeventually(lambda: len(made.workers) == 2)
    await until_dead(made.store, add(made.store))
    assert "started again" in caplog.text
    await server.say("lifespan.shutdown")


async def test_the_servers_signal_handler_is_called_and_the_worker_claims_nothing_more(made):
    heard = []
    former = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        server = Server(get_worker_application(inner))
        await server.say("lifespan.startup")
        await aeventually(lambda: made.workers[0].runtime is not None and made.workers[0].runtime.keeper.held)
        ours = signal.getsignal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        await aeventually(lambda: heard == [signal.SIGTERM])
        await aeventually(lambda: made.workers[0].runtime.stopping)
        job = add(made.store)
        await server.say("lifespan.shutdown")
        assert made.store.get(job).state == "ready"
        assert signal.getsignal(signal.SIGTERM) is not ours
    finally:
        signal.signal(signal.SIGTERM, former)


async def test_a_server_without_a_lifespan_has_the_worker_from_its_first_request_on(made, monkeypatch):
    monkeypatch.setattr(embedding.atexit, "register", lambda *_: None)
    app = get_worker_application(inner)

    async def nothing(*_):
        return None

    await app({"type": "http"}, nothing, nothing)
    await until_dead(made.store, add(made.store))
    await app.embedded.stop()


async def test_a_worker_that_no_lifespan_ended_is_gone_with_its_process(made, monkeypatch):
    at_exit = []
    monkeypatch.setattr(embedding.atexit, "register", at_exit.append)
    app = get_worker_application(inner)

    async def nothing(*_):
        return None

    await app({"type": "http"}, nothing, nothing)
    await aeventually(made.store.workers)
    with monkeypatch.context() as forked:
        forked.setattr("os.getpid", lambda: -1)
        await asyncio.to_thread(at_exit[0])
        assert made.store.workers(), "a process that a task forked from this one is not the worker"
    await asyncio.to_thread(at_exit[0])
    assert made.store.workers() == []
    await app.embedded.stop_at_once()


async def test_requests_are_cancelled_when_the_grace_after_a_stop_is_over(made, monkeypatch):
    make = embedding._made

    def with_grace():
        worker = make()
        object.__setattr__(worker.config, "shutdown_cancel_grace", 0.05)
        return worker

    monkeypatch.setattr(embedding, "_made", with_grace)
    began = asyncio.Event()

    async def endless(scope, receive, send):
        began.set()
        await asyncio.Event().wait()

    app = get_worker_application(endless)
    server = Server(app)
    await server.say("lifespan.startup")
    request = asyncio.create_task(app({"type": "http"}, None, None))
    await asyncio.wait_for(began.wait(), 10)
    await server.say("lifespan.shutdown")
    await asyncio.wait([request], timeout=10)
    assert request.cancelled()


async def test_the_middleware_keeps_the_lifespan_of_the_application(made):
    steps = []

    async def own_lifespan(scope, receive, send):
        while (message := await receive())["type"] != "lifespan.shutdown":
            steps.append("started")
            await send({"type": message["type"] + ".complete"})
        steps.append("stopped")
        await send({"type": "lifespan.shutdown.complete"})

    server = Server(WorkerMiddleware(own_lifespan))
    assert (await server.say("lifespan.startup"))["type"] == "lifespan.startup.complete"
    await until_dead(made.store, add(made.store))
    assert (await server.say("lifespan.shutdown"))["type"] == "lifespan.shutdown.complete"
    assert steps == ["started", "stopped"]
    await asyncio.wait_for(server.task, 10)


async def test_the_context_manager_runs_a_worker_in_its_block(made):
    async with worker_lifespan():
        await until_dead(made.store, add(made.store))
    await let_others_run()
    assert made.store.workers() == []
