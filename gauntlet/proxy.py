"""A TCP proxy between workers and their server, told from outside to cut, refuse, swallow, delay and drop.

It runs in a thread with an event loop of its own; every method may be called from any other thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Coroutine
from typing import Any, Self

LOOPBACK = "127.0.0.1"
CHUNK = 65536


class Proxy:
    """Listens on `port` and leads to `target` on the same machine. Counts what it did, so that a fault can be shown.

    `latency` is how many seconds each packet takes, in either direction. `replies_lost` is the share of replies that
    never arrive, or only in part, although the server carried out what they answer: the connection is cut instead.
    """

    def __init__(self, target: int, seed: int) -> None:
        self.port = 0
        self.latency = 0.0
        self.replies_lost = 0.0
        self.accepted = 0
        self.cuts = 0
        self.lost = 0
        self.swallowed = 0
        self.delayed = 0
        self._target = target
        self._rng = random.Random(f"proxy {seed}")
        self._swallowing = False
        self._pairs: set[_Pair] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def start(self) -> Self:
        """Listen on a port of the system's choice."""
        self._thread.start()
        self._do(self._listen())
        return self

    def stop(self) -> None:
        """Cut everything and end the thread; a proxy that has ended is left alone."""
        if self._thread.is_alive():
            self._do(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._loop.close()

    def pass_on(self) -> None:
        """Let everything through again. Connections that lost bytes in between are dead for ever, and not told so."""
        self.latency = self.replies_lost = 0.0
        self._swallowing = False
        if self._server is None:
            self._do(self._listen())

    def cut(self) -> int:
        """Cut every connection; returns how many there were."""
        return self._do(self._cut())

    def refuse(self) -> None:
        """Cut every connection and let none be made."""
        self._do(self._refuse())

    def swallow(self) -> None:
        """Be a black hole: accept connections, and let no byte through in any of them."""
        self._swallowing = True

    # --- in the thread ------------------------------------------------------------------------------------------

    def _do[T](self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _refuse(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        await self._cut()

    async def _end(self) -> None:
        await self._refuse()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _cut(self) -> int:
        pairs = list(self._pairs)
        for pair in pairs:
            pair.cut()
        self.cuts += len(pairs)
        return len(pairs)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        pair = _Pair(writer)
        self._pairs.add(pair)
        try:
            if self._swallowing:
                await self._swallow(reader)
            else:
                await self._connect(pair, reader, writer)
        except OSError:
            pass  # Either side is gone: the other one is to see it.
        finally:
            self._pairs.discard(pair)
            pair.cut()

    async def _swallow(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(CHUNK):
            self.swallowed += len(data)

    async def _connect(self, pair: _Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, commands = await asyncio.open_connection(LOOPBACK, self._target)
        pair.writers.append(commands)
        directions = [
            asyncio.ensure_future(self._pump(pair, reader, commands, replies=False)),
            asyncio.ensure_future(self._pump(pair, answers, writer, replies=True)),
        ]
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        pair.cut()
        await asyncio.gather(*directions, return_exceptions=True)

    async def _pump(
        self, pair: _Pair, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, replies: bool
    ) -> None:
        while data := await source.read(CHUNK):
            if self._swallowing or pair.dead:
                pair.dead = True
                self.swallowed += len(data)
                continue
            if self.latency:
                self.delayed += 1
                await asyncio.sleep(self.latency)
            if replies and self._rng.random() < self.replies_lost:
                self.lost += 1
                sink.write(data[: self._rng.randrange(len(data))])
                with contextlib.suppress(OSError):
                    await sink.drain()
                return
            sink.write(data)
            await sink.drain()


class _Pair:
    """Both ends of one connection. `dead`: bytes of it were swallowed, so nothing that follows makes sense."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.writers = [client]
        self.dead = False

    def cut(self) -> None:
        """End both ends at once."""
        for writer in self.writers:
            with contextlib.suppress(RuntimeError):
                writer.transport.abort()
