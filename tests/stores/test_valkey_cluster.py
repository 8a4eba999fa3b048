"""A cluster of three primaries and a Sentinel: failover and resharding, while jobs go through."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator

import pytest
import valkey

from django_vtasks.jobs.errors import InvalidOptions, StoreUnavailable
from django_vtasks.jobs.model import Job
from django_vtasks.jobs.outcomes import Succeeded
from django_vtasks.jobs.transitions import Policy
from django_vtasks.stores.valkey.keys import slot_of
from django_vtasks.stores.valkey.store import ValkeyAdminStore, ValkeyClientStore, ValkeyOptions, ValkeyWorkerStore
from tests.stores.valkey_help import claim, job, run_all
from tests.support.builders import settled
from tests.support.servers import LOOPBACK, ValkeyServer, free_port, start_or_skip
from tests.support.waiting import aeventually, eventually, measured_for

PATIENCE = 90.0
"""Seconds that a failover may take on a busy machine."""


class ClusterNode(ValkeyServer):
    """One node; its bus has a port of its own."""

    def __init__(self) -> None:
        self.bus_port = free_port()
        words = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--cluster-port", str(self.bus_port))
        super().__init__(options=(*words, "--appendonly", "no"))


class Cluster:
    """Six nodes: three primaries, each with a replica."""

    def __init__(self, nodes: list[ClusterNode]) -> None:
        self.nodes = nodes
        self.raw = [valkey.Valkey(port=node.port, socket_timeout=5) for node in nodes]
        self._meet()
        self._share_slots()
        self._add_replicas()

    @property
    def url(self) -> str:
        return ",".join(f"redis://{LOOPBACK}:{node.port}" for node in self.nodes[:3])

    def options(self, **changes) -> ValkeyOptions:
        values = {"urls": (self.url,), "cluster": True, "read_timeout": 2.0}
        return ValkeyOptions(**(values | changes))

    def _meet(self) -> None:
        for node in self.nodes[1:]:
            self.raw[0].execute_command("CLUSTER", "MEET", LOOPBACK, node.port, node.bus_port)

    def _share_slots(self) -> None:
        for index, (first, last) in enumerate(((0, 5460), (5461, 10922), (10923, 16383))):
            self.raw[index].execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)

    def _add_replicas(self) -> None:
        everybody = {str(node.port) for node in self.nodes}
        eventually(lambda: all(self._knows(raw) >= everybody for raw in self.raw), within=PATIENCE)
        for index, raw in enumerate(self.raw[3:]):
            raw.execute_command("CLUSTER", "REPLICATE", self.id_of(index))
        eventually(lambda: all(self._is_ok(raw) for raw in self.raw), within=PATIENCE)
        eventually(lambda: all(raw.info("replication")["master_link_status"] == "up" for raw in self.raw[3:]))

    def _knows(self, raw: valkey.Valkey) -> set[str]:
        return set(re.findall(r":(\d+)@", raw.execute_command("CLUSTER", "NODES").decode()))

    def _is_ok(self, raw: valkey.Valkey) -> bool:
        return b"cluster_state:ok" in raw.execute_command("CLUSTER", "INFO")

    def id_of(self, index: int) -> str:
        return self.raw[index].execute_command("CLUSTER", "MYID").decode()

    def owner_of(self, slot: int) -> int:
        """The index of the node that serves a slot now."""
        for first, last, primary, *_ in self.raw[0].execute_command("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return [node.port for node in self.nodes].index(primary[1])
        raise LookupError(f"nobody serves slot {slot}")

    def revive(self, index: int) -> None:
        """Start a node again and wait until the whole cluster is as good as new."""
        self.nodes[index].start()
        eventually(lambda: all(self._is_ok(raw) for raw in self.raw), within=PATIENCE)
        eventually(self._replicas_are_in_step, within=PATIENCE)

    def _replicas_are_in_step(self) -> bool:
        told = [raw.info("replication") for raw in self.raw]
        replicas = [one for one in told if one["role"] == "slave"]
        return len(replicas) == 3 and all(one["master_link_status"] == "up" for one in replicas)


@pytest.fixture(scope="module")
def servers() -> Iterator[list[ClusterNode]]:
    nodes = [ClusterNode() for _ in range(6)]
    for node in nodes:
        start_or_skip(node)
    yield nodes
    for node in nodes:
        node.discard()


@pytest.fixture(scope="module")
def cluster(servers) -> Cluster:
    return Cluster(servers)


@pytest.fixture
def store(cluster):
    store = ValkeyClientStore(cluster.options())
    yield store
    store.close()


@pytest.fixture
async def worker(cluster):
    worker = ValkeyWorkerStore(cluster.options())
    yield worker
    await worker.close()


class Load:
    """Adds jobs and runs them, through whatever trouble; an operation that failed is done again with the same jobs."""

    def __init__(self, options: ValkeyOptions) -> None:
        self.store, self.worker = ValkeyClientStore(options), ValkeyWorkerStore(options)
        self.added: list[Job] = []
        self.ran: list[str] = []
        self.troubles = 0
        self._stop = asyncio.Event()
        self._adding = asyncio.create_task(self._add())
        self._tasks = [self._adding, asyncio.create_task(self._run())]

    async def _add(self) -> None:
        while not self._stop.is_set():
            jobs = [job() for _ in range(5)]
            await self._insist(lambda jobs=jobs: self.store.aadd(jobs))
            self.added += jobs

    async def _run(self) -> None:
        idle = False
        while not (self._stop.is_set() and idle):
            done = [one.id for one in await self._insist(self._round)]
            self.ran += done
            # Only a look that began after the last job was added says that nothing waits any more.
            idle = self._adding.done() and not done

    async def _round(self) -> list[Job | None]:
        """Run everything, first what a round that failed half way has left in flight."""
        held = await self.worker.held("alpha")
        if not held:
            return await run_all(self.worker)
        now = await self.worker.now()
        done = [settled(one, Succeeded(), Policy(result_ttl=60), now) for one in held]
        refused = (await self.worker.exchange(done, None)).refused
        return [one.job for one in held if one.lease.token not in refused]

    async def _insist(self, call):
        while True:
            try:
                return await call()
            except StoreUnavailable:
                self.troubles += 1
                await measured_for(0.05)

    async def progresses(self, jobs: int = 50) -> None:
        """Return when so many more jobs have run."""
        aim = len(set(self.ran)) + jobs
        await aeventually(lambda: len(set(self.ran)) >= aim, within=PATIENCE)

    async def progresses_after_trouble(self) -> None:
        """Return when a call has failed and jobs that were added after that have run, every one of them."""
        await aeventually(lambda: self.troubles, within=PATIENCE)
        await self.progresses()
        first = len(self.added)
        await self.progresses()
        later = {one.id for one in self.added[first:]}
        await aeventually(lambda: later and later <= set(self.ran), within=PATIENCE)

    async def end(self) -> None:
        """Let everything that was added run, and close."""
        self._stop.set()
        await asyncio.wait_for(asyncio.gather(*self._tasks), PATIENCE)
        await self.worker.close()
        self.store.close()


class TestCluster:
    async def test_every_side_of_the_store_works(self, cluster, store, worker):
        store.add([first := job(priority=4), job(run_after=time.time() + 0.1)])
        await store.aadd([job()])
        assert await worker.wait_for_jobs(["default"], 5)
        assert (await run_all(worker))[0].id == first.id

        async def promoted() -> int:
            return (await worker.pulse("alpha", 100)).promoted

        assert await aeventually(promoted) == 1
        assert len(await run_all(worker)) == 1
        assert await worker.expired(100) == ()
        admin = ValkeyAdminStore(cluster.options())
        assert admin.counts() == []
        admin.close()

    def test_prefixes_spread_aliases_over_the_primaries(self, cluster):
        stores = {}
        for name in ("a", "b", "c", "d", "e", "f"):
            prefix = f"{{queue-{name}}}:"
            stores[cluster.owner_of(slot_of(prefix))] = store = ValkeyClientStore(cluster.options(prefix=prefix))
            assert store.add([job()])[0].status == "added"
            store.close()
        assert len(stores) == 3

    def test_a_prefix_without_a_hash_tag_is_refused(self, cluster):
        with pytest.raises(InvalidOptions, match="hash tag"):
            ValkeyClientStore(cluster.options(prefix="vt:"))

    async def test_a_start_node_that_is_gone_is_passed_over(self, cluster):
        store = ValkeyClientStore(cluster.options(urls=(f"redis://{LOOPBACK}:1,{cluster.url}",)))
        assert (await store.aadd([job()]))[0].status == "added"
        assert store.add([job()])[0].status == "added"
        store.close()

    async def test_a_slot_that_moves_under_load_costs_time_and_no_job(self, cluster):
        """The whole alias is one slot; while it moves everything is refused before it is begun."""
        prefix = "{moving}:"
        slot = slot_of(prefix)
        source = cluster.owner_of(slot)
        target = next(index for index in map(cluster.owner_of, (0, 8000, 16000)) if index != source)
        load = Load(cluster.options(prefix=prefix))
        await load.progresses()
        await asyncio.to_thread(self.move, cluster, slot, source, target)
        await load.progresses()
        await load.end()
        assert set(load.ran) == {one.id for one in load.added}
        assert load.troubles

    def move(self, cluster: Cluster, slot: int, source: int, target: int) -> None:
        give, take = cluster.raw[source], cluster.raw[target]
        take.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", cluster.id_of(source))
        give.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", cluster.id_of(target))
        asyncio.run(measured_for(0.3))
        while keys := give.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            give.execute_command("MIGRATE", LOOPBACK, cluster.nodes[target].port, "", 0, 5000, "KEYS", *keys)
        for raw in (take, give):
            raw.execute_command("CLUSTER", "SETSLOT", slot, "NODE", cluster.id_of(target))

    async def test_a_primary_that_dies_under_load_is_replaced(self, cluster):
        """Replication is asynchronous: what only the dead primary knew is gone, what is added afterwards is not."""
        load = Load(cluster.options())
        await load.progresses()
        primary = cluster.owner_of(slot_of("{vt}:"))
        cluster.nodes[primary].kill()
        await load.progresses_after_trouble()
        await load.end()
        await asyncio.to_thread(cluster.revive, primary)


# -- Sentinel ---------------------------------------------------------------------------------------------------------


class SentinelServer(ValkeyServer):
    """One Sentinel that watches a primary."""

    title = "Valkey Sentinel"

    def __init__(self, primary: ValkeyServer) -> None:
        super().__init__()
        self.primary = primary

    def command(self, data):
        config = data / "sentinel.conf"
        if not config.exists():
            config.write_text(
                f"port {self.port}\nbind {LOOPBACK}\n"
                f"sentinel monitor prime {LOOPBACK} {self.primary.port} 1\n"
                "sentinel down-after-milliseconds prime 1000\nsentinel failover-timeout prime 3000\n"
            )
        return [str(self.program()), str(config), "--sentinel"]


@pytest.fixture
def behind_sentinel(start_server):
    """A primary, a replica in step with it, and the options of an alias that asks the Sentinel for the primary."""
    primary = start_server(ValkeyServer())
    replica = start_server(ValkeyServer(options=("--replicaof", f"{LOOPBACK} {primary.port}")))
    with valkey.Valkey(port=replica.port) as raw:
        eventually(lambda: raw.info("replication")["master_link_status"] == "up", within=PATIENCE)
    sentinel = start_server(SentinelServer(primary))
    with valkey.Valkey(port=sentinel.port) as raw:
        eventually(lambda: raw.sentinel_slaves("prime"), within=PATIENCE)
    url = f"sentinel://{LOOPBACK}:1,{LOOPBACK}:{sentinel.port}/prime/0"
    return primary, ValkeyOptions(urls=(url,), read_timeout=2.0)


class TestSentinel:
    async def test_a_failover_under_load_is_followed(self, behind_sentinel):
        primary, options = behind_sentinel
        load = Load(options)
        await load.progresses()
        primary.kill()
        await load.progresses_after_trouble()
        await load.end()

    async def test_a_primary_that_comes_back_as_a_replica_is_left(self, behind_sentinel):
        primary, options = behind_sentinel
        store = ValkeyClientStore(options)
        await store.aadd([job()])
        primary.pause()
        with pytest.raises(StoreUnavailable):
            await store.aadd([job()])

        async def added() -> bool:
            try:
                return bool(await store.aadd([job()]))
            except StoreUnavailable:
                return False

        await aeventually(added, within=PATIENCE)
        primary.resume()
        await aeventually(added)
        store.close()

    async def test_an_unknown_service_is_told(self, behind_sentinel):
        _, options = behind_sentinel
        url = options.urls[0].replace("/prime/", "/other/")
        store = ValkeyClientStore(ValkeyOptions(urls=(url,)))
        with pytest.raises(StoreUnavailable, match="knows where commands are to be sent"):
            await store.aadd([job()])
        store.close()

    async def test_claims_survive_a_failover(self, behind_sentinel):
        primary, options = behind_sentinel
        store, worker = ValkeyClientStore(options), ValkeyWorkerStore(options)
        await store.aadd([known := job()])
        assert len((await claim(worker)).claims) == 1
        with valkey.Valkey(port=primary.port) as raw:
            raw.wait(1, 5000)
        primary.kill()

        async def held() -> list[str]:
            try:
                return [one.job.id for one in await worker.held("alpha")]
            except StoreUnavailable:
                return []

        assert await aeventually(held, within=PATIENCE) == [known.id]
        await worker.close()
        store.close()
