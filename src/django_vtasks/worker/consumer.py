"""The consumer: carries settlements to the store and brings claims back, one exchange at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ..jobs.errors import StoreUnavailable
from ..jobs.transitions import Settlement
from ..stores.base import ClaimRequest, WorkerStore
from .attempts import Attempts
from .demand import Demand
from .isolation import Isolation
from .leases import LeaseKeeper
from .reconciler import Reconciler
from .reports import Reports
from .service import OUTAGES, Pace, unless_stopped
from .settler import Settler
from .watch import WAIT, Watch

LARGEST_SETTLE = 500
"""The most settlements written in one round."""

LAST_PAUSES = 0.25
"""Seconds between two tries of a worker that is to end, at most."""


class Consumer:
    """Runs rounds with the store. What finished during one round is settled by the next (natural batching).

    Owns nothing but the order of events: demand says what to ask, attempts run, the settler keeps what is to be
    written, the watch waits. `on_dry` is asked when nothing is due, runs or waits to be written: True goes on.
    """

    def __init__(
        self,
        store: WorkerStore,
        keeper: LeaseKeeper,
        demand: Demand,
        attempts: Attempts,
        settler: Settler,
        reconciler: Reconciler,
    ) -> None:
        self.on_dry: Callable[[], Awaitable[bool]] | None = None
        self._store = store
        self._keeper = keeper
        self._demand = demand
        self._attempts = attempts
        self._settler = settler
        self._reconciler = reconciler
        self._isolation = Isolation(store, settler, keeper)
        self._losses_seen = 0
        self._fruitless = 0

    def accompany(self, pace: Pace, watch: Watch, reports: Reports) -> None:
        """How this service fares, what waits beside it, and what running jobs say of themselves."""
        self.pace = pace
        self._watch = watch
        self._reports = reports

    @property
    def name(self) -> str:
        """The name under which it reports."""
        return self.pace.name

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until `stop` is set, or set it when all that was asked for is done; then settle what was claimed."""
        self._stop = stop
        stopping = asyncio.ensure_future(stop.wait())
        stopping.add_done_callback(lambda _: self._attempts.wakeup.ring())
        try:
            while True:
                try:
                    if await self._over():
                        break
                    await self._turn()
                except OUTAGES as error:
                    await self._sit_out(error)
            stop.set()
        finally:
            stopping.cancel()
            await self._watch.closed()

    async def _over(self) -> bool:
        idle = not self._attempts.flight and not self._settler
        if self._stop.is_set():
            if not idle:
                self._attempts.return_members()
            return idle
        if self._demand.exhausted:
            self._attempts.hurry()
            return idle
        if self.on_dry is None or self._demand.pressing() or not self._keeper.held:
            return False
        self._attempts.hurry()
        if not idle:
            return False
        more = await self.on_dry()
        self._demand.refresh()
        return not more

    async def _turn(self) -> None:
        self._attempts.wakeup.clear()
        self._take_news()
        if self._may_begin:
            self._attempts.begin_batches()
        settlements = self._settler.take(LARGEST_SETTLE)
        claiming = not self._stop.is_set() and self._reconciler.certain
        request = self._demand.request(self._keeper.owner) if claiming else None
        busy = bool(settlements) or (request is not None and self._demand.pressing())
        if busy:
            await self._round(settlements, request)
        if self._reconciler.due:
            await self._reconcile()
        elif not busy:
            await self._sleep(self._demand.open_queues() if claiming else ())

    def _take_news(self) -> None:
        if self._watch.take_news():
            self._demand.refresh()
            self._note_wake()
        if self._keeper.losses != self._losses_seen:
            self._losses_seen = self._keeper.losses
            self._reconciler.doubt()

    def _note_wake(self) -> None:
        """Do not wake at the store's full speed when others are faster each time, or it wakes for nothing."""
        self._fruitless = self._fruitless + 1 if self._watch.woken else 0
        if self._fruitless > 3:
            self._watch.hold_off(min(0.25, 0.001 * 2 ** min(self._fruitless, 10)))

    async def _round(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> None:
        try:
            if settlements and self._reports:
                await self._reports.save_for(s.claim.lease.token for s in settlements)
            exchange = await self._store.exchange(settlements, request)
        except BaseException as error:
            self._reconciler.doubt()
            self._demand.refresh()
            self._settler.put_back(settlements)
            if not settlements or isinstance(error, StoreUnavailable) or not isinstance(error, Exception):
                raise
            await self._isolation.settle_each(self._settler.take(len(settlements)), error)
            self.pace.turned()
            return
        self.pace.turned()
        self._watch.rest()
        self._settler.written(settlements, exchange)
        if request is not None:
            self._demand.answered(request, exchange.claims)
        if exchange.claims:
            self._fruitless = 0
            # Who stood still past the lease while the answer was under way begins nothing that others may have by now.
            begins = self._reconciler.certain and not self._stop.is_set()
            take = self._attempts.accept if begins else self._attempts.return_untouched
            for claim in exchange.claims:
                take(claim)
            if not self._settler and not self._demand.pressing():
                await self._let_begin()

    @staticmethod
    async def _let_begin() -> None:
        """Nothing is to be asked now, so what was accepted begins first, and what ends at once is settled first."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _reconcile(self) -> None:
        flight = self._attempts.flight
        found = await self._reconciler.compare(
            working_on=lambda: flight.tokens() | self._settler.tokens(), running=flight.tokens
        )
        if found.lost:
            self._attempts.give_up(found.lost)
        self._reconciler.confirm(found)
        for claim in found.unknown:
            if self._reconciler.certain and self._attempts.slots.free_for(claim.queue):
                self._attempts.accept(claim)
            else:
                self._attempts.return_untouched(claim)

    @property
    def _may_begin(self) -> bool:
        """Whether what was collected for batches is surely ours still."""
        return self._reconciler.certain and not self._reconciler.due

    async def _sleep(self, queues: Sequence[str]) -> None:
        # After a failure this is reached only once the store has answered again, see `_round` and `_reconcile`.
        self.pace.turned()
        seconds = min(WAIT, self._watch.keep_open(queues))
        batch_in = self._attempts.next_batch_in() if self._may_begin else None
        await self._attempts.wakeup.sleep(seconds if batch_in is None else min(seconds, batch_in))

    async def _sit_out(self, error: BaseException) -> None:
        if self._stop.is_set():
            await asyncio.sleep(self.pace.failed(error, LAST_PAUSES))
        else:
            await unless_stopped(self._stop, self.pace.failed(error))
