"""Connections of the Valkey store: who shares them, and what becomes of a call whose connection breaks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.stores.base import Added, AddStatus
from django_vtasks.stores.valkey import client as driver_module
from django_vtasks.stores.valkey.client_store import LoopSide
from django_vtasks.stores.valkey.store import ValkeyClientStore, ValkeyWorkerStore
from tests.stores.valkey_help import claim, job, options, raw_client, run_all, wanted
from tests.support.architecture import ROOT
from tests.support.builders import a_key
from tests.support.waiting import eventually
from tests.support.wire import Proxy

QUEUE = "{vt}:q:default"


@pytest.fixture
def raw(clean_valkey):
    with raw_client(clean_valkey) as client:
        yield client


@pytest.fixture
def store(clean_valkey):
    store = ValkeyClientStore(options(clean_valkey))
    yield store
    store.close()


@pytest.fixture
async def worker(clean_valkey):
    worker = ValkeyWorkerStore(options(clean_valkey))
    yield worker
    await worker.close()


@pytest.fixture
def proxied(clean_valkey):
    """A store that reaches its server through a proxy, and the proxy."""
    proxy = Proxy(clean_valkey.port)
    store = ValkeyClientStore(options(clean_valkey, urls=(f"redis://127.0.0.1:{proxy.port}",)))
    yield store, proxy
    store.close()
    proxy.close()


def connections(raw) -> int:
    """How many connections of stores the server has."""
    return sum(item["name"] == "django-vtasks" for item in raw.client_list())


class TestSharing:
    def test_threads_share_a_store(self, store, raw):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: store.add([job()])[0].status, range(400)))
        assert set(answers) == {AddStatus.ADDED}
        assert raw.llen(QUEUE) == 400
        assert connections(raw) <= 8

    def test_event_loops_one_after_the_other_share_a_store_and_leave_no_connection(self, store, raw):
        before = connections(raw)
        for _ in range(3):
            asyncio.run(store.aadd([job()]))
        assert raw.llen(QUEUE) == 3
        eventually(lambda: connections(raw) <= before)

    def test_event_loops_side_by_side_share_a_store(self, store, raw):
        async def add_many() -> None:
            await asyncio.gather(*[store.aadd([job()]) for _ in range(100)])

        threads = [threading.Thread(target=asyncio.run, args=(add_many(),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert raw.llen(QUEUE) == 300

    async def test_coroutines_of_one_loop_share_one_connection_and_few_calls(self, store, raw):
        others = connections(raw)
        await store.aadd([job()])
        before = raw.info("commandstats")["cmdstat_evalsha"]["calls"]
        answers = await asyncio.gather(*[store.aadd([job(), job()]) for _ in range(100)])
        assert [len(answer) for answer in answers] == [2] * 100
        assert raw.info("commandstats")["cmdstat_evalsha"]["calls"] - before <= 3
        assert connections(raw) <= others + 1

    async def test_many_who_add_again_and_again_take_turns_in_two_halves(self):
        server = Scripted()
        side = LoopSide(server, server)

        async def add_five() -> None:
            for _ in range(5):
                server.overlaps += server.busy
                await side.add(["entry"])

        await asyncio.gather(*[add_five() for _ in range(40)])
        assert sum(server.sizes) == 200
        assert (server.sizes[0], max(server.sizes)) == (1, 21)
        assert server.overlaps > 150

    async def test_a_shared_call_answers_each_its_own(self, store):
        first = job(unique=a_key("k"))
        answers = await asyncio.gather(
            store.aadd([first]), store.aadd([job()]), store.aadd([job(unique=a_key("k")), job()]), store.aadd([])
        )
        statuses = [[one.status for one in answer] for answer in answers]
        assert statuses == [["added"], ["added"], ["duplicate", "added"], []]
        assert answers[2][0].job_id == first.id

    async def test_a_cancelled_call_leaves_the_connection_usable(self, store, clean_valkey):
        await store.aadd([job()])
        clean_valkey.pause()
        calls = [asyncio.create_task(store.aadd([job()])) for _ in range(3)]
        await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        clean_valkey.resume()
        known = job()
        assert (await store.aadd([known]))[0].job_id == known.id
        assert (await store.aget(known.id)).job.id == known.id

    def test_parent_and_child_of_a_fork_use_their_own_connections(self, clean_valkey, raw):
        script = FORKING.format(url=clean_valkey.url)
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert raw.llen(QUEUE) == 41


class Scripted:
    """Client and plans of a side at once: notes how many jobs each call has, and lets others have a turn."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.busy = False
        self.overlaps = 0

    def add(self, entries, _caller):
        return entries

    async def run(self, plan):
        self.sizes.append(len(plan))
        self.busy = True
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.busy = False
        return [Added(status=AddStatus.ADDED, job_id="x") for _ in plan]


FORKING = """
import os, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = ["src", "."]
from django_vtasks.stores.valkey.store import ValkeyClientStore, ValkeyOptions
from tests.stores.valkey_help import job
store = ValkeyClientStore(ValkeyOptions(urls=("{url}",)))
store.add([job()])
children = []
for number in range(4):
    child = os.fork()
    if not child:
        for _ in range(5):
            own = store.new_id()
            assert store.add([job(id=own)])[0].job_id == own
            assert store.get(own).job.id == own
        os._exit(0)
    children.append(child)
for _ in range(20):
    own = store.new_id()
    assert store.add([job(id=own)])[0].job_id == own
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


class TestBrokenConnections:
    def test_a_connection_that_the_server_closed_is_replaced(self, store, raw):
        store.add([job()])
        raw.client_kill_filter(_type="normal", skipme=True)
        assert store.add([job()])[0].status == "added"
        raw.client_kill_filter(_type="normal", skipme=True)
        assert store.get("0" * 32) is None
        assert raw.llen(QUEUE) == 2

    async def test_a_connection_of_a_loop_that_the_server_closed_is_replaced(self, store, raw):
        await store.aadd([job()])
        raw.client_kill_filter(_type="normal", skipme=True)
        assert (await store.aadd([job()]))[0].status == "added"
        raw.client_kill_filter(_type="normal", skipme=True)
        assert await store.aget("0" * 32) is None
        assert raw.llen(QUEUE) == 2

    @pytest.mark.parametrize("ttl", [None, 0.0])
    def test_a_lost_reply_doubles_no_job(self, proxied, raw, ttl):
        """Whether anybody keeps a record of the job or not."""
        store, proxy = proxied
        store.add([job()])
        proxy.lose_next_reply()
        assert [one.status for one in store.add([job(result_ttl=ttl), job(result_ttl=ttl)])] == ["added", "added"]
        assert (proxy.lost, raw.llen(QUEUE)) == (1, 3)

    @pytest.mark.parametrize("ttl", [None, 0.0])
    async def test_a_lost_reply_doubles_no_job_of_a_loop(self, proxied, raw, ttl):
        store, proxy = proxied
        await store.aadd([job()])
        proxy.lose_next_reply()
        answers = await asyncio.gather(*[store.aadd([job(result_ttl=ttl)]) for _ in range(20)])
        assert {answer[0].status for answer in answers} == {"added"}
        assert (proxy.lost, raw.llen(QUEUE)) == (1, 21)

    def test_after_a_lost_reply_the_answers_are_those_of_the_first_call(self, proxied):
        store, proxy = proxied
        first = job(unique=a_key("taken"))
        store.add([first])
        new = job(unique=a_key("free"))
        proxy.lose_next_reply()
        answers = store.add([new, job(unique=a_key("taken")), job(unique=a_key("free"))])
        assert [answer.status for answer in answers] == ["added", "duplicate", "duplicate"]
        assert [answer.job_id for answer in answers] == [new.id, first.id, new.id]

    async def test_a_lost_reply_of_a_round_is_told_and_nothing_is_lost(self, clean_valkey):
        proxy = Proxy(clean_valkey.port)
        worker = ValkeyWorkerStore(options(clean_valkey, urls=(f"redis://127.0.0.1:{proxy.port}",)))
        store = ValkeyClientStore(options(clean_valkey))
        store.add([known := job()])
        await claim(worker, "other")
        proxy.lose_next_reply()
        with pytest.raises(StoreUnavailable):
            await worker.exchange([], wanted())
        assert [one.job.id for one in await worker.held("alpha")] == [known.id]
        await worker.close()
        store.close()
        proxy.close()


class TestServerTroubles:
    async def test_flushed_scripts_are_loaded_again(self, store, worker, raw):
        for _ in range(2):
            await store.aadd([job()])
            store.add([job()])
            assert len(await run_all(worker)) == 2
            raw.script_flush()

    async def test_a_restarted_server_is_found_again(self, start_server):
        from tests.support.servers import ValkeyServer

        server = start_server(ValkeyServer(options=("--appendfsync", "always")))
        store, worker = ValkeyClientStore(options(server)), ValkeyWorkerStore(options(server))
        await store.aadd([first := job()])
        await claim(worker)
        server.restart()
        await store.aadd([second := job()])
        assert [one.job.id for one in await worker.held("alpha")] == [first.id]
        assert [one.job.id for one in (await claim(worker)).claims] == [second.id]
        await worker.close()
        store.close()

    @pytest.mark.parametrize("what", ["add", "get", "extend"])
    def test_a_server_that_hangs_is_given_up_in_time(self, clean_valkey, what):
        store, worker = ValkeyClientStore(options(clean_valkey)), ValkeyWorkerStore(options(clean_valkey))
        calls = {
            "add": lambda: store.add([job()]),
            "get": lambda: store.get("x"),
            "extend": lambda: worker.extend("a", 5),
        }
        calls[what]()
        clean_valkey.pause()
        try:
            assert seconds_until_unavailable(calls[what]) < 4
        finally:
            clean_valkey.resume()
            store.close()
            asyncio.run(worker.close())

    def test_a_renewal_that_is_not_answered_leaves_time_for_others_before_the_lease_runs_out(self, clean_valkey):
        """Shown to catch: the timeout of any other call, which a short lease does not outlive."""
        worker = ValkeyWorkerStore(options(clean_valkey, read_timeout=30.0))
        worker.extend("a", 1.5)
        clean_valkey.pause()
        try:
            assert seconds_until_unavailable(lambda: worker.extend("a", 1.5)) < 10
        finally:
            clean_valkey.resume()
        assert worker.extend("a", 600)
        asyncio.run(worker.close())

    async def test_a_worker_notices_a_server_that_hangs(self, worker, clean_valkey):
        await worker.open()
        assert not await worker.wait_for_jobs(["default"], 0.3)
        clean_valkey.pause()
        start = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await worker.wait_for_jobs(["default"], 30)
        clean_valkey.resume()
        assert time.monotonic() - start < 5
        assert not await worker.wait_for_jobs(["default"], 0.01)

    def test_no_server_at_all_is_told_at_once_with_its_address(self):
        store = ValkeyClientStore(options(None, urls=("redis://someone:hunter2@127.0.0.1:1/0",)))
        with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/") as raised:
            store.add([job()])
        assert "hunter2" not in str(raised.value)


def seconds_until_unavailable(call) -> float:
    start = time.monotonic()
    with pytest.raises(StoreUnavailable, match="in time"):
        call()
    return time.monotonic() - start


@pytest.fixture
def redis_py(monkeypatch):
    """The store with redis-py in place of valkey-py."""
    monkeypatch.setattr(driver_module, "_DRIVERS", (("redis", "hiredis"),))
    driver_module.driver.cache_clear()
    yield
    driver_module.driver.cache_clear()


class TestRedisPy:
    """redis-py does what valkey-py does."""

    async def test_jobs_go_through(self, redis_py, clean_redis):
        store, worker = ValkeyClientStore(options(clean_redis)), ValkeyWorkerStore(options(clean_redis))
        jobs = [job() for _ in range(4)]
        await store.aadd(jobs[:2])
        store.add(jobs[2:])
        assert [one.id for one in await run_all(worker)] == [one.id for one in jobs]
        assert store.get(jobs[0].id).state == "succeeded"
        await worker.close()
        store.close()

    def test_it_retries_nothing_by_itself(self, redis_py, clean_redis):
        store = ValkeyClientStore(options(clean_redis, read_timeout=1.0))
        store.add([job()])
        clean_redis.pause()
        try:
            assert seconds_until_unavailable(lambda: store.add([job()])) < 3
        finally:
            clean_redis.resume()
            store.close()

    def test_a_connection_that_the_server_closed_is_replaced(self, redis_py, clean_redis):
        store = ValkeyClientStore(options(clean_redis))
        store.add([job()])
        with raw_client(clean_redis) as raw:
            raw.client_kill_filter(_type="normal", skipme=True)
            store.add([job()])
            assert raw.llen(QUEUE) == 2
        store.close()

    def test_without_any_driver_the_error_says_what_to_install(self, monkeypatch):
        from django_vtasks.jobs.errors import InvalidOptions

        monkeypatch.setattr(driver_module, "_DRIVERS", (("valkey_is_missing", "x"),))
        driver_module.driver.cache_clear()
        with pytest.raises(InvalidOptions, match="pip install"):
            driver_module.driver()
        driver_module.driver.cache_clear()


def test_the_packer_in_python_does_what_those_in_c_do():
    parts = (b"EVALSHA", "ünï", 7, 1.5, b"\r\n")
    assert driver_module.pack_command(parts) == driver_module.driver().pack(parts)
