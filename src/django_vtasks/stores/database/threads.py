"""One thread that owns one of Django's connections and runs the store's statements on it, one after the other.

A server that does not answer costs the caller its timeout and no more: the thread is given up together with its
connection, and the next call gets a new one.
"""

import asyncio
import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from django.db import DatabaseError, InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ...jobs.errors import StoreUnavailable
from ..base import Connections
from ..base.expiry import GRACE, LATE, Expiry
from .session import as_store_error

type Work[T] = Callable[[BaseDatabaseWrapper], T]
type Report = Callable[[Any, BaseException | None], None]

TRIES = 6
"""How often work is tried whose transaction the server ended in favour of another one."""

LONGEST_PAUSE = 0.02
"""Seconds between two of those tries at most; chance keeps two workers apart."""


@dataclass(frozen=True, slots=True)
class _Call:
    work: Work[Any]
    report: Report
    wanted: Callable[[], bool]


class RunsWork(Protocol):
    """Where the statements of a store run. Neither call leaves a driver's error as it is."""

    async def call[T](self, work: Work[T], timeout: float) -> T:
        """What the work returns. Raises StoreUnavailable after `timeout` seconds without an answer."""
        ...

    def call_blocking[T](self, work: Work[T], timeout: float) -> T:
        """As `call`, for a caller without an event loop."""
        ...

    def connections(self) -> Connections:
        """The connections it made for itself."""
        ...

    def close(self, timeout: float = 2.0) -> None:
        """Give back what it holds."""
        ...


class DatabaseThread:
    """Runs work on a connection of its own. Safe to share between threads and event loops."""

    def __init__(self, alias: str, name: str) -> None:
        self._alias = alias
        self._name = name
        self._lock = threading.Lock()
        self._runner: _Runner | None = None
        self._opened = 0

    async def call[T](self, work: Work[T], timeout: float) -> T:
        """What the work returns. Raises StoreUnavailable after `timeout` seconds without an answer."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def report(result: Any, error: BaseException | None) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, answer, result, error)

        runner = self._submit(_Call(work, report, lambda: not answer.done()))
        timer = Expiry(loop, timeout, lambda: self._late(answer, runner, timeout))
        try:
            return await answer
        finally:
            timer.cancel()

    def call_blocking[T](self, work: Work[T], timeout: float) -> T:
        """As `call`, for a caller without an event loop."""
        answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        in_time = True
        runner = self._submit(_Call(work, lambda result, error: answers.put((result, error)), lambda: in_time))
        try:
            result, error = _awaited(answers, timeout)
        except Empty:
            in_time = False
            self._give_up(runner)
            raise _no_answer(timeout) from None
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def connections(self) -> Connections:
        """See `RunsWork.connections`."""
        with self._lock:
            is_open = self._runner is not None and self._runner.is_connected
            return Connections(open=int(is_open), opened=self._opened)

    def close(self, timeout: float = 2.0) -> None:
        """End the thread and its connection, waiting at most `timeout` seconds; a later call starts another one."""
        with self._lock:
            runner, self._runner = self._runner, None
        if runner is not None:
            runner.finish(timeout)

    def _submit(self, call: _Call) -> "_Runner":
        with self._lock:
            if self._runner is None:
                self._runner = _Runner(self._alias, self._name, self._note_opened)
            runner = self._runner
            runner.calls.put(call)
        return runner

    def _note_opened(self) -> None:
        with self._lock:
            self._opened += 1

    def _late(self, answer: "asyncio.Future[Any]", runner: "_Runner", timeout: float) -> None:
        self._give_up(runner)
        if not answer.done():
            answer.set_exception(_no_answer(timeout))

    def _give_up(self, runner: "_Runner") -> None:
        with self._lock:
            if self._runner is runner:
                self._runner = None
        runner.abandon()


def _awaited[T](answers: SimpleQueue[T], timeout: float) -> T:
    began_at = time.monotonic()
    try:
        return answers.get(timeout=timeout)
    except Empty:
        if time.monotonic() - began_at <= timeout + LATE:
            raise
    # The process was frozen: the thread that reads the answer has to get its turn first.
    return answers.get(timeout=GRACE)


def _resolve(answer: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


def _no_answer(timeout: float) -> StoreUnavailable:
    return StoreUnavailable(f"the database did not answer within {timeout:g} s")


class _Runner:
    """The thread itself."""

    def __init__(self, alias: str, name: str, on_opened: Callable[[], None]) -> None:
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._alias = alias
        self._on_opened = on_opened
        self._abandoned = False
        self._connection: BaseDatabaseWrapper | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def is_connected(self) -> bool:
        """Whether it has a connection."""
        return self._connection is not None and self._connection.connection is not None

    def finish(self, timeout: float) -> None:
        """Let the thread end after what it was given."""
        self.calls.put(None)
        self._thread.join(timeout)

    def abandon(self) -> None:
        """Let the thread end without running what is still waiting, and break what it waits for."""
        self._abandoned = True
        with contextlib.suppress(Empty):
            while True:
                _refuse(self.calls.get_nowait())
        self.calls.put(None)
        _sever(self._connection)

    def _serve(self) -> None:
        self._connection = connection = connections[self._alias]
        connection_created.connect(self._notice)
        while (call := self.calls.get()) is not None:
            if self._abandoned:
                _refuse(call)
            elif call.wanted():
                self._run(connection, call)
        connection_created.disconnect(self._notice)
        _close(connection)

    def _notice(self, connection: BaseDatabaseWrapper, **_others: Any) -> None:
        if connection is self._connection:
            self._on_opened()

    def _run(self, connection: BaseDatabaseWrapper, call: _Call) -> None:
        try:
            result = _tried(connection, call.work)
        except (DatabaseError, InterfaceError) as error:
            problem = as_store_error(error)
            problem.__cause__ = error
            call.report(None, problem)
        except BaseException as error:
            call.report(None, error)
        else:
            call.report(result, None)


def _refuse(call: _Call | None) -> None:
    # Its own timeout would end it too, at a time when the database may long be back.
    if call is not None:
        call.report(None, StoreUnavailable("the database did not answer what was asked before"))


def _tried[T](connection: BaseDatabaseWrapper, work: Work[T]) -> T:
    for _ in range(TRIES - 1):
        try:
            return _once(connection, work)
        except (DatabaseError, InterfaceError) as error:
            if not _worth_another_try(error):
                raise
            time.sleep(random.uniform(0, LONGEST_PAUSE))
    return _once(connection, work)


def _once[T](connection: BaseDatabaseWrapper, work: Work[T]) -> T:
    if connection.close_at is not None and time.monotonic() >= connection.close_at and _max_age(connection):
        connection.close()
    try:
        return work(connection)
    except BaseException as error:
        # After any other error the connection is as good as before: the transaction was rolled back.
        if isinstance(error, OperationalError | InterfaceError) or connection.errors_occurred:
            _close(connection)
        raise


def _max_age(connection: BaseDatabaseWrapper) -> float | None:
    # Zero means one connection for each request, and a worker's thread serves none.
    return connection.settings_dict["CONN_MAX_AGE"]  # type: ignore[no-any-return]


_SERIALIZATION_FAILURES = frozenset(("40001", "40P01"))
_MYSQL_DEADLOCKS = frozenset((1205, 1213))


def _worth_another_try(error: BaseException) -> bool:
    cause = error.__cause__
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    number = cause.args[0] if cause is not None and cause.args else None
    return state in _SERIALIZATION_FAILURES or number in _MYSQL_DEADLOCKS


def _close(connection: BaseDatabaseWrapper) -> None:
    try:
        connection.close()
    except Exception:
        # What is left of a broken connection; Django makes a new one at the next statement.
        connection.connection = None


def _sever(connection: BaseDatabaseWrapper | None) -> None:
    """Shut the socket of a connection another thread is waiting on, so that the thread is not lost for ever."""
    try:
        number = connection.connection.fileno()  # type: ignore[union-attr]
        with socket.socket(fileno=number) as shared:
            try:
                shared.shutdown(socket.SHUT_RDWR)
            finally:
                shared.detach()
    except Exception:
        return
