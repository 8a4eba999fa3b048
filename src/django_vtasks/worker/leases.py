"""The lease of this incarnation, renewed from a thread so that no user code on the event loop can delay it."""

import random
import threading
import time
from collections.abc import Callable
from typing import Protocol

from ..events import Emitter, LeaseRenewed
from .service import OUTAGES, Pace


class LeaseStore(Protocol):
    """The two calls of a `WorkerStore` that the lease thread makes."""

    def extend(self, owner: str, seconds: float) -> bool:
        """Renew the lease."""
        ...

    def release(self, owner: str) -> None:
        """End the lease."""
        ...


def lease_clock() -> float:
    """Seconds that also pass while the machine is suspended, as they do for the store; never set back."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class LeaseKeeper:
    """Owns the lease thread, and knows until when the lease is surely held.

    `losses` counts how often it was not held for a while; a lease that the store did not give at once counts as one.
    `on_change` is called in the thread whenever a renewal found that the lease had run out, and when it is held
    again; `on_crash` when the thread meets an error that is no outage.
    """

    def __init__(
        self, store: LeaseStore, owner: str, *, seconds: float, every: float, pace: Pace, emitter: Emitter
    ) -> None:
        self.owner = owner
        self.seconds = seconds
        self.pace = pace
        self.losses = 0
        self.held_since: float | None = None
        self._every = min(every, seconds / 3) if every > 0 else seconds / 3
        pace.expected = self._every
        self._store = store
        self._emitter = emitter
        self._held_until = 0.0
        self._stop = threading.Event()
        self._new = True
        self._was_held = False
        self._release = False
        self._thread: threading.Thread | None = None
        self._on_change: Callable[[], None] = _nothing
        self._on_crash: Callable[[BaseException], None] = _ignore

    def start(self, on_change: Callable[[], None], on_crash: Callable[[BaseException], None]) -> None:
        """Start the thread; it takes the lease as soon as the store answers."""
        self._on_change = on_change
        self._on_crash = on_crash
        self._thread = threading.Thread(target=self._run, name="vtasks-lease", daemon=True)
        self._thread.start()

    @property
    def held(self) -> bool:
        """Whether the lease is surely held at this moment."""
        return lease_clock() < self._held_until

    def held_since_loss(self, losses: int) -> bool:
        """Whether the lease is surely held, and was without a gap since `losses` was this number."""
        # In this order: a renewal counts the loss that it found before it makes the lease a held one again.
        return self.held and self.losses == losses

    def held_for(self) -> float:
        """For how many seconds the lease has been held without a gap; 0 while it is not."""
        since = self.held_since
        return lease_clock() - since if since is not None and self.held else 0.0

    def end(self) -> None:
        """Have the thread release the lease and end; returns at once, `join` waits."""
        self._release = True
        self._stop.set()

    def abandon(self) -> None:
        """Have the thread end without a release: what the lease covers stays covered until it runs out."""
        self._stop.set()

    def join(self, seconds: float) -> bool:
        """Wait for the end of the thread; False when it is still there. Blocks."""
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._stop.wait(self._renew())
            if self._release:
                self._give_up()
        except BaseException as error:
            self._held_until = 0.0
            self._on_crash(error)

    def _renew(self) -> float:
        asked_at = lease_clock()
        try:
            known = self._store.extend(self.owner, self.seconds)
        except OUTAGES as error:
            if self._new or (self.held_since is not None and not self.held):
                self._lapsed()
                self._on_change()
            return self.pace.failed(error, self._every)
        answered_at = lease_clock()
        lost = not known and self._was_held
        if self.held_since is not None and (lost or asked_at >= self._held_until):
            self._lapsed()
        self._held_until = asked_at + self.seconds
        self.pace.turned()
        if self.held_since is None:
            self.held_since = answered_at
            self._new = False
            self._was_held = True
            self._on_change()
        if self._emitter.wanted(LeaseRenewed):
            self._emitter.emit(LeaseRenewed(worker_id=self.owner, lost=lost))
        return max(0.05, self._every * random.uniform(0.85, 1.0) - (answered_at - asked_at))

    def _lapsed(self) -> None:
        self.losses += 1
        self.held_since = None
        self._new = False

    def _give_up(self) -> None:
        try:
            self._store.release(self.owner)
        except OUTAGES:
            pass


def _nothing() -> None:
    return None


def _ignore(_error: BaseException) -> None:
    return None
