"""How an attempt is stopped from outside: told first, then given up."""

from ..events import ThreadAbandoned
from ..jobs.outcomes import Abandonment, Outcome, Untouched
from .attempts import Attempt
from .conduct import announce_outside
from .endings import Stop


class StoppableAttempt(Attempt):
    """An attempt as its worker holds it. All methods are called on the loop.

    A coroutine is cancelled, a function in a thread is told through its context. One that has not ended after the
    grace is abandoned: its outcome is made without it, and its late end changes nothing.
    """

    def cancel(self) -> None:
        """Stop it because somebody cancelled the job."""
        self._stop(Stop.CANCEL)

    def withdraw(self) -> None:
        """Stop it because the job is somebody else's by now; to whoever listens that is no failure."""
        self._stop(Stop.LOST)

    def interrupt(self) -> None:
        """Stop it because the worker goes away: a coroutine is cancelled, a thread is waited for no longer."""
        self._stop(Stop.SHUTDOWN)

    def limit(self, seconds: float) -> None:
        """Stop it when it runs longer."""
        self._timer = self.env.loop.call_later(seconds, self._stop, Stop.TIMEOUT)

    def _stop(self, stop: Stop) -> None:
        if self._done is None or (not self._ending and stop is not Stop.SHUTDOWN):
            return
        told_before = self.stop is not None and bool(self._ending)
        if told_before and stop is not Stop.SHUTDOWN:
            return
        self.stop = self.stop or stop
        if self._drop():
            return
        if self.task is not None:
            if not told_before:
                self.task.cancel()
                self._wait_for_end()
        elif stop is Stop.SHUTDOWN:
            self._give_up()
        else:
            self.stack = self.env.threads.stack_of(self)
            self._wait_for_end()

    def _drop(self) -> bool:
        """End an attempt whose function was not called yet."""
        if not self.begin():
            return False
        self.executed = False
        self.end()
        if self.stop in (Stop.SHUTDOWN, Stop.LOST):
            self.settle([Untouched()] * len(self.claims))
            announce_outside(self, None)
        else:
            self._end_from_outside(Abandonment.STOPPED)
        return True

    def _wait_for_end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.env.loop.call_later(self.env.options.grace, self._give_up)

    def _give_up(self) -> None:
        in_thread = self.task is None and self.stop is not Stop.SHUTDOWN
        if in_thread and self.env.threads.abandoned >= self.env.options.max_abandoned_threads:
            self._wait_for_end()
        elif self.end():
            if in_thread:
                self._abandon_thread()
            self._end_from_outside(Abandonment.ABANDONED)
        elif self.endings:
            # The function ended long ago, and a receiver of its signals holds it up.
            self.report()

    def _abandon_thread(self) -> None:
        self.env.threads.abandon(self)
        for claim in self.claims:
            self.env.options.emitter.emit(ThreadAbandoned(claim=claim, total=self.env.threads.abandoned))

    def refuse(self, outcome: Outcome, error: BaseException) -> None:
        """End it before it begins."""
        if self.begin() and self.end():
            self.executed = False
            self.settle([outcome] * len(self.claims))
            announce_outside(self, error)

    def _end_from_outside(self, how: Abandonment) -> None:
        told = self.stop_error()
        self.settle(self.stopped(told, how))
        announce_outside(self, told)
