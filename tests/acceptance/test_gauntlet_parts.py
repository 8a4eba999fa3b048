"""What would make the gauntlet prove nothing if it were wrong: its proxy, its stopwatch, its mutations."""

from __future__ import annotations

import asyncio
import re
import shutil

import pytest

from gauntlet import outage
from gauntlet.ledger import Run
from gauntlet.mutation import SRC
from gauntlet.mutations import MUTATIONS
from gauntlet.proxy import Proxy
from gauntlet.scenarios import SCENARIOS
from tests.support.architecture import ROOT
from tests.support.waiting import aeventually, let_others_run

pytestmark = pytest.mark.acceptance


# -- the proxy --------------------------------------------------------------------------------------------------------


class Echo:
    """A server that answers what it is told, and remembers it."""

    def __init__(self) -> None:
        self.heard = b""
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Echo:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await let_others_run()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        while data := await reader.read(1000):
            self.heard += data
            writer.write(data)


@pytest.fixture
async def echo():
    async with Echo() as server:
        yield server


@pytest.fixture
def proxy(echo):
    proxy = Proxy(echo.port, seed=1).start()
    yield proxy
    proxy.stop()


@pytest.fixture
async def connect(proxy):
    """Connects to the proxy; what it opened is closed at the end."""
    opened: list[asyncio.StreamWriter] = []

    async def connect():
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        opened.append(writer)
        return reader, writer

    yield connect
    for writer in opened:
        writer.transport.abort()
    await let_others_run()


async def call(streams, words: bytes, within: float = 10) -> bytes:
    """Say something and return the answer; empty when the connection is gone. TimeoutError when none comes."""
    reader, writer = streams
    writer.write(words)
    try:
        async with asyncio.timeout(within):
            return await reader.read(1000)
    except ConnectionError:
        return b""


async def test_a_proxy_passes_on_what_is_said(connect):
    assert await call(await connect(), b"hello") == b"hello"


async def test_a_cut_ends_connections_and_lets_new_ones_be_made(proxy, connect):
    streams = await connect()
    assert await call(streams, b"hello") == b"hello"
    assert await asyncio.to_thread(proxy.cut) == 1
    assert await call(streams, b"again") == b""
    assert await call(await connect(), b"hello") == b"hello"


async def test_a_proxy_that_refuses_lets_nobody_in_until_it_passes_on(proxy, connect):
    streams = await connect()
    assert await call(streams, b"hello") == b"hello"
    await asyncio.to_thread(proxy.refuse)
    assert await call(streams, b"again") == b""
    with pytest.raises(ConnectionRefusedError):
        await connect()
    await asyncio.to_thread(proxy.pass_on)
    assert await call(await connect(), b"hello") == b"hello"


async def test_a_black_hole_swallows_for_ever_what_was_said_into_it(proxy, echo, connect):
    old = await connect()
    assert await call(old, b"hello") == b"hello"
    proxy.swallow()
    new = await connect()
    for streams in (old, new):
        with pytest.raises(TimeoutError):
            await call(streams, b"lost", within=0.2)
    proxy.pass_on()
    for streams in (old, new):
        with pytest.raises(TimeoutError):
            await call(streams, b"lost", within=0.2)
    assert await call(await connect(), b"hello") == b"hello"
    assert echo.heard == b"hellohello"


async def test_a_lost_reply_is_one_to_something_that_the_server_did(proxy, echo, connect):
    streams = await connect()
    assert await call(streams, b"hello") == b"hello"
    proxy.replies_lost = 1.0
    answer = await call(streams, b"do it")
    assert answer != b"do it"
    assert b"do it".startswith(answer)
    await aeventually(lambda: echo.heard == b"hellodo it")
    assert proxy.lost == 1


async def test_a_slow_proxy_takes_its_time_in_both_directions(proxy, connect):
    streams = await connect()
    proxy.latency = 0.05
    began = asyncio.get_running_loop().time()
    assert await call(streams, b"hello") == b"hello"
    assert asyncio.get_running_loop().time() - began >= 0.1
    assert proxy.delayed == 2


# -- the stopwatch ----------------------------------------------------------------------------------------------------


def ended(*moments: float, label: str = "async-1") -> list[Run]:
    return [Run("job", 1, label, 1, str(at), at - 0.01, at) for at in moments]


def test_a_rate_counts_what_ended_in_the_window_in_one_queue():
    runs = ended(1, 8, 9, 10, 11) + ended(9, 10, label="bulk-1")
    assert outage.rate(runs, "default", 10.5) == 3 / outage.WINDOW
    assert outage.rate(runs, "bulk", 10.5) == 2 / outage.WINDOW


def test_a_rate_is_back_with_the_first_window_that_has_enough():
    trickle = ended(100, 104, 108)
    flood = ended(*(110 + number / 10 for number in range(40)))
    assert outage.back_at(trickle + flood, [], 99, 10.0) == 110
    assert outage.back_at(trickle, [], 99, 10.0) is None


def test_a_queue_need_not_be_faster_than_its_feed():
    half = ended(*(100 + number / 5 for number in range(40)))
    fed = [99.5 + number / 5 for number in range(40)]
    assert outage.back_at(half, fed, 99, 10.0) == 100
    assert outage.back_at(half, fed + fed, 99, 10.0) is None
    assert outage.back_at(half[:5], fed[:5], 99, 10.0) is None


def test_what_ended_before_the_server_was_back_does_not_count():
    flood = ended(*(110 + number / 10 for number in range(40)))
    assert outage.back_at(flood, [], 111.95, 6.0) == 112


# -- the faults -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_fits_the_product_and_is_named_by_who_catches_it(mutation, tmp_path):
    for name in {name for name, _, _ in mutation.changes}:
        copy = tmp_path / SRC / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / SRC / name, copy)
    mutation.apply(tmp_path)
    for file in tmp_path.rglob("*.py"):
        compile(file.read_text(), file.name, "exec")
    for scenario in mutation.scenarios:
        assert mutation.name in (SCENARIOS[scenario].play.__doc__ or ""), scenario
        assert set(mutation.stores) & set(SCENARIOS[scenario].stores), scenario


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.name)
def test_a_scenario_names_mutations_that_there_are_and_is_in_the_readme(scenario):
    caught = re.search(r"Caught: ([^.]*)\.", scenario.play.__doc__ or "")
    assert caught, "which mutation was it shown to catch?"
    known = {mutation.name for mutation in MUTATIONS if scenario.name in mutation.scenarios}
    assert set(re.split(r",\s+", caught[1])) == known
    assert f"| `{scenario.name}` |" in (ROOT / "gauntlet/README.md").read_text()
