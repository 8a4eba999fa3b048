"""Servers of every shape: unix socket, TLS, users with passwords, and servers that refuse."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from django_vtasks.jobs.errors import StoreRefused, StoreUnavailable
from django_vtasks.jobs.model import JobState
from django_vtasks.jobs.outcomes import Succeeded
from django_vtasks.jobs.transitions import Policy
from django_vtasks.stores.base import JobFilter
from django_vtasks.stores.valkey.store import ValkeyAdminStore, ValkeyClientStore, ValkeyWorkerStore
from tests.stores.valkey_help import claim, job, options, raw_client, run_all
from tests.support.builders import settled
from tests.support.servers import RedisServer, ValkeyServer, free_port, unavailable
from tests.support.waiting import eventually


async def works(**where) -> None:
    """All three sides of the store reach the server, in a thread and in an event loop."""
    given = options(None, **where)
    store, worker, admin = ValkeyClientStore(given), ValkeyWorkerStore(given), ValkeyAdminStore(given)
    jobs = [job(args=["x" * size]) for size in (1, 5000)]
    try:
        await worker.open()
        store.add(jobs[:1])
        await store.aadd(jobs[1:])
        assert not await worker.wait_for_jobs(["other"], 0.01)
        assert [one.id for one in await run_all(worker)] == [one.id for one in jobs]
        assert [one.job.id for one in admin.page(JobFilter(state=JobState.SUCCEEDED)).records] == [
            jobs[1].id,
            jobs[0].id,
        ]
    finally:
        await worker.close()
        store.close()
        admin.close()


# -- unix socket, databases -------------------------------------------------------------------------------------------


async def test_a_unix_socket(start_server, tmp_path):
    path = tmp_path / "v.sock"
    start_server(ValkeyServer(options=("--unixsocket", str(path))))
    await works(urls=(f"unix://{path}?db=3",))


async def test_databases_of_one_server_are_apart(clean_valkey):
    await works(urls=(clean_valkey.url.removesuffix("/0") + "/5",))
    with raw_client(clean_valkey) as raw:
        assert raw.dbsize() == 0
        raw.select(5)
        assert raw.dbsize() > 0


async def test_prefixes_of_one_server_are_apart(clean_valkey):
    store = ValkeyClientStore(options(clean_valkey, prefix="{mine}:"))
    store.add([job(), job(priority=3), job(run_after=4e9)])
    other = ValkeyWorkerStore(options(clean_valkey))
    assert (await claim(other)).claims == ()
    with raw_client(clean_valkey) as raw:
        keys = {key.decode() for key in raw.scan_iter()}
    assert not [key for key in keys if not key.startswith(("{mine}:", "{vt}:leases"))]
    await other.close()
    store.close()


# -- TLS --------------------------------------------------------------------------------------------------------------


def make_certificates(folder: Path) -> Path:
    """An authority, and certificates of a server and a client that it signed."""
    if shutil.which("openssl") is None:
        unavailable("openssl is missing: apt-get install openssl")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    for name in ("ca", "other"):
        new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
        openssl(*new, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", *usage)
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for name in ("server", "client"):
        request = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}")
        openssl(*request, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        sign = ("x509", "-req", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        openssl(*sign, "-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", "names")
    return folder


@pytest.fixture
def tls(start_server, tmp_path):
    """A server that wants client certificates: its URL without options, and the folder of the certificates."""
    folder, port = make_certificates(tmp_path), free_port()
    files = {"--tls-cert-file": "server.pem", "--tls-key-file": "server.key", "--tls-ca-cert-file": "ca.pem"}
    start_server(
        RedisServer(
            options=(
                *("--tls-port", str(port), "--tls-auth-clients", "yes"),
                *(word for name, file in files.items() for word in (name, str(folder / file))),
            )
        )
    )
    return f"rediss://127.0.0.1:{port}/0", folder


class TestTls:
    def query(self, folder: Path, ca: str = "ca.pem", client: str = "client") -> str:
        return f"?ssl_ca_certs={folder / ca}&ssl_certfile={folder}/{client}.pem&ssl_keyfile={folder}/{client}.key"

    async def test_certificates_of_both_sides_are_checked(self, tls):
        url, folder = tls
        await works(urls=(url + self.query(folder),))

    async def test_the_certificates_may_come_out_of_caches(self, tls):
        url, folder = tls
        files = {
            "ssl_ca_certs": str(folder / "ca.pem"),
            "ssl_certfile": str(folder / "client.pem"),
            "ssl_keyfile": str(folder / "client.key"),
        }
        await works(cache={"LOCATION": url, "OPTIONS": {"CONNECTION_POOL_KWARGS": files}})

    async def test_a_server_of_another_authority_is_not_trusted(self, tls):
        url, folder = tls
        store = ValkeyClientStore(options(None, urls=(url + self.query(folder, ca="other.pem"),)))
        with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
            store.add([job()])
        with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
            await store.aadd([job()])

    async def test_it_is_trusted_unchecked_when_told_so(self, tls):
        url, folder = tls
        await works(urls=(url + self.query(folder, ca="other.pem") + "&ssl_cert_reqs=none",))

    def test_a_client_without_a_certificate_is_turned_away(self, tls):
        url, folder = tls
        store = ValkeyClientStore(options(None, urls=(f"{url}?ssl_ca_certs={folder / 'ca.pem'}",)))
        with pytest.raises(StoreUnavailable):
            store.add([job()])


# -- users ------------------------------------------------------------------------------------------------------------

COMMANDS = "+@connection +@scripting +@read +@write +@blocking +time +dbsize +scan -@dangerous +cluster|slots"
"""What docs/PROTOCOL.md says a user needs."""


@pytest.fixture
def users(start_server):
    """A server with one user who may do what the store needs under its prefix, and one who may only look."""
    server = start_server(ValkeyServer())
    with raw_client(server) as raw:
        raw.execute_command("ACL", "SETUSER", "queue", "on", ">pass:w/rd", "~{vt}:*", *COMMANDS.split())
        raw.execute_command("ACL", "SETUSER", "looker", "on", ">looks", "~{vt}:*", "+@connection", "+@read")
        raw.execute_command("ACL", "SETUSER", "default", "off")
    return f"127.0.0.1:{server.port}/0"


class TestUsers:
    async def test_a_user_needs_the_documented_permissions_only(self, users):
        await works(urls=(f"valkey://queue:pass%3Aw%2Frd@{users}",))

    @pytest.mark.parametrize("credentials", ["queue:wrong1@", ":wrong1@", "nobody:wrong1@"])
    def test_wrong_credentials_are_told_without_them(self, users, credentials):
        error = self.refusal_of(f"valkey://{credentials}{users}")
        assert "user name and password are wrong" in error
        assert "wrong1" not in error

    def test_missing_credentials_are_told(self, users):
        assert "wants a password" in self.refusal_of(f"valkey://{users}")

    def test_missing_permissions_are_told(self, users):
        assert "ACL does not permit" in self.refusal_of(f"valkey://looker:looks@{users}")

    def refusal_of(self, url: str) -> str:
        """What both clients say, which must be the same."""
        store = ValkeyClientStore(options(None, urls=(url,)))
        with pytest.raises(StoreRefused) as in_thread:
            store.add([job()])
        with pytest.raises(StoreRefused) as in_loop:
            asyncio.run(store.aadd([job()]))
        store.close()
        assert str(in_thread.value) == str(in_loop.value)
        return str(in_thread.value)


# -- refusals ---------------------------------------------------------------------------------------------------------


class TestFullServer:
    """`maxmemory` is reached and nothing may be evicted."""

    @pytest.fixture
    def server(self, keyvalue_server):
        yield keyvalue_server
        with raw_client(keyvalue_server) as raw:
            raw.config_set("maxmemory", 0)

    def fill(self, server) -> None:
        with raw_client(server) as raw:
            raw.config_set("maxmemory-policy", "noeviction")
            raw.config_set("maxmemory", 1)

    @pytest.mark.parametrize("changes", [{}, {"result_ttl": 0.0}, {"run_after": 4e9}, {"priority": 5}], ids=str)
    async def test_an_enqueue_is_refused_and_leaves_nothing(self, server, changes):
        store = ValkeyClientStore(options(server))
        self.fill(server)
        with pytest.raises(StoreRefused, match="maxmemory"):
            store.add([job(**changes)])
        with pytest.raises(StoreRefused, match="Nothing was stored"):
            await store.aadd([job(**changes)])
        with raw_client(server) as raw:
            assert raw.keys() == []
            raw.config_set("maxmemory", 0)
        assert store.add([job(**changes)])[0].status == "added"
        store.close()

    async def test_workers_go_on_and_lose_nothing(self, server):
        store, worker = ValkeyClientStore(options(server)), ValkeyWorkerStore(options(server))
        jobs = [job() for _ in range(3)]
        store.add(jobs)
        worker.extend("alpha", 60)
        self.fill(server)
        claims = (await claim(worker)).claims
        done = [settled(one, Succeeded(), Policy(result_ttl=60), await worker.now()) for one in claims]
        assert len(done) == 3
        assert not (await worker.exchange(done, None)).refused
        assert [store.get(one.id).state for one in jobs] == ["succeeded"] * 3
        await worker.close()
        store.close()

    @pytest.mark.parametrize("agenda", [{"q:default": 1.0}, {}], ids=["too early", "made by 3.2"])
    async def test_what_is_to_be_looked_at_is_corrected_all_the_same(self, server, agenda):
        store, worker = ValkeyClientStore(options(server)), ValkeyWorkerStore(options(server))
        store.add([job(run_after=4e9)])
        with raw_client(server) as raw:
            raw.delete("{vt}:agenda")
            for entry, at in agenda.items():
                raw.zadd("{vt}:agenda", {entry: at})
            await worker.wait_for_jobs(["default"], 0.0)
            self.fill(server)
            assert (await worker.pulse("alpha", 100)).promoted == 0
            assert raw.zscore("{vt}:agenda", "q:default") == 4e9
        await worker.close()
        store.close()


async def test_a_replica_is_not_the_server_for_us(start_server):
    server = start_server(ValkeyServer())
    store = ValkeyClientStore(options(server))
    store.add([job()])
    with raw_client(server) as raw:
        raw.replicaof("127.0.0.1", 1)
        with pytest.raises(StoreUnavailable, match="replica"):
            store.add([job()])
        with pytest.raises(StoreUnavailable, match="replica"):
            await store.aadd([job()])
        raw.replicaof("NO", "ONE")
    assert store.add([job()])[0].status == "added"
    store.close()


def test_keys_of_another_program_are_named_as_the_reason(clean_valkey):
    with raw_client(clean_valkey) as raw:
        raw.set("{vt}:q:default", "something")
    store = ValkeyClientStore(options(clean_valkey))
    with pytest.raises(StoreRefused, match="another program uses the same prefix"):
        store.add([job()])
    store.close()


@pytest.mark.parametrize("queue", ["failed", "", "two\nlines"])
def test_an_impossible_queue_name_is_refused(clean_valkey, queue):
    store = ValkeyClientStore(options(clean_valkey))
    with pytest.raises(StoreRefused, match="must not be named"):
        store.add([job(queue=queue)])
    store.close()


def test_the_number_of_clients_may_be_exhausted(start_server):
    server = start_server(ValkeyServer())
    store = ValkeyClientStore(options(server))
    with raw_client(server) as raw:
        raw.config_set("maxclients", 1)
        with pytest.raises(StoreUnavailable):
            store.add([job()])
        raw.config_set("maxclients", 100)
    assert eventually(lambda: store.add([job()]))
    store.close()
