"""A worker inside an ASGI server: `application = get_worker_application(get_asgi_application())`.

Three ways in: an application that answers the lifespan protocol itself (Django's does not know it), a middleware for
applications that do, and an async context manager for those who write their own lifespan.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from .embedded import EmbeddedWorker

type Message = MutableMapping[str, Any]
type Receive = Callable[[], Awaitable[Message]]
type Send = Callable[[Message], Awaitable[None]]
type App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


def get_worker_application(django_app: App) -> "WorkerApplication":
    """The application, with a worker beside it that lives as long as the server process."""
    return WorkerApplication(django_app)


@asynccontextmanager
async def worker_lifespan() -> AsyncIterator[EmbeddedWorker]:
    """Run a worker while the block lasts. Raises ImproperlyConfigured when its settings are wrong."""
    embedded = EmbeddedWorker()
    embedded.start()
    try:
        yield embedded
    finally:
        await embedded.stop()


class WorkerApplication:
    """Answers the lifespan protocol and passes everything else on.

    A server that does not speak it (daphne) has the worker from its first request on.
    """

    def __init__(self, app: App) -> None:
        self.app = app
        self.embedded = EmbeddedWorker()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """One connection, or the lifespan."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        self.embedded.start_unless_known()
        with self.embedded.serving():
            await self.app(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        try:
            await self._answer(receive, send)
        except asyncio.CancelledError:
            # A dispatcher that is done with the lifespan; what runs is handed back before it goes on.
            await self.embedded.stop_at_once()
            raise

    async def _answer(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    self.embedded.start()
                except Exception as error:
                    await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
                    return
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                try:
                    await self.embedded.stop()
                except Exception as error:
                    await send({"type": "lifespan.shutdown.failed", "message": f"{type(error).__name__}: {error}"})
                    return
                await send({"type": "lifespan.shutdown.complete"})
                return


class WorkerMiddleware:
    """The same for an application that has a lifespan of its own: the worker starts after it and stops before it."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.embedded = EmbeddedWorker()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """One connection, or the lifespan."""
        if scope["type"] != "lifespan":
            self.embedded.start_unless_known()
            with self.embedded.serving():
                await self.app(scope, receive, send)
            return
        try:
            await self.app(scope, self._stopping(receive), self._starting(send))
        finally:
            await self.embedded.stop_at_once()

    def _starting(self, send: Send) -> Send:
        async def starting(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                try:
                    self.embedded.start()
                except Exception as error:
                    message = {"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"}
            await send(message)

        return starting

    def _stopping(self, receive: Receive) -> Receive:
        async def stopping() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.embedded.stop()
            return message

        return stopping
