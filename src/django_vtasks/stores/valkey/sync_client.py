"""The client for threads: a small pool of connections, safe after a fork."""

import os
from collections import deque
from collections.abc import Sequence
from typing import Any

from ...jobs.errors import QueueError
from ..base import Connections
from .client import driver, make_connection
from .endpoints import Address
from .locate import Link, locate
from .refusals import Remedy, needs_another_server, remedy_for, translate
from .requests import Call, Part, Plan, Request, full_wire, wire


class SyncClient:
    """Carries out plans in any thread. Owns idle connections; each is used by one thread at a time."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._driver = driver()
        self._idle: deque[Any] = deque()
        self._open: set[Any] = set()
        self._opened = 0
        self._pid = os.getpid()

    def run[T](self, plan: Plan[T]) -> T:
        """Carry out a plan and return its result. Raises StoreUnavailable or StoreRefused."""
        try:
            request = next(plan)
            while True:
                try:
                    reply = self.send(request)
                except QueueError as error:
                    request = plan.throw(error)
                else:
                    request = plan.send(reply)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def send(self, request: Request) -> Any:
        """The reply to one request. Raises StoreUnavailable or StoreRefused."""
        try:
            return self._send(request)
        except self._driver.all_errors as error:
            raise translate(error, self._link.endpoint) from error

    def connections(self) -> Connections:
        """Its connections, those in use included."""
        return Connections(open=len(self._open), opened=self._opened)

    def turn_to(self, link: Link) -> None:
        """Use another server, or other timeouts, from now on."""
        self.close()
        self._link = link

    def close(self) -> None:
        """Close the idle connections; the client can be used again."""
        while self._idle:
            self._drop(self._idle.pop())

    def _drop(self, connection: Any) -> None:
        self._open.discard(connection)
        connection.disconnect()

    def _send(self, request: Request) -> Any:
        parts = wire(request, self._link.guard)
        remedies: set[str] = set()
        while True:
            try:
                return self._exchange(parts)
            except (self._driver.response_error, self._driver.connection_error) as error:
                remedy = remedy_for(error, request)
                if remedy is None or remedy in remedies:
                    raise
            # Each remedy helps once: what is still wrong afterwards is not what it is for.
            remedies.add(remedy)
            if isinstance(request, Call) and remedy is Remedy.SEND_THE_SCRIPT:
                parts = full_wire(request, self._link.guard)
            else:
                self.close()

    def _exchange(self, parts: Sequence[Part]) -> Any:
        connection = self._take()
        try:
            connection.send_packed_command((self._driver.pack(parts),), check_health=False)
            reply = connection.read_response()
        except self._driver.response_error as error:
            if needs_another_server(error):
                self._drop(connection)
            else:
                self._idle.append(connection)
            raise
        except BaseException:
            self._drop(connection)
            raise
        self._idle.append(connection)
        return reply

    def _take(self) -> Any:
        if self._pid != os.getpid():
            # The sockets belong to the parent process, which goes on using them.
            self._idle, self._open = deque(), set()
            self._pid = os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def _connect(self) -> Any:
        link = self._link
        connection = make_connection(self._driver.sync, link.endpoint, self._locate(), link.timeouts)
        connection.connect()
        self._open.add(connection)
        self._opened += 1
        return connection

    def _locate(self) -> Address | None:
        search = locate(self._link)
        try:
            seed, question = next(search)
            while True:
                seed, question = search.send(self._ask(seed, question))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _ask(self, seed: Address, question: tuple[str, ...]) -> Any:
        connection = make_connection(self._driver.sync, self._link.seeds, seed, self._link.timeouts)
        try:
            connection.send_command(*question, check_health=False)
            return connection.read_response()
        except self._driver.all_errors:
            return None
        finally:
            connection.disconnect()
