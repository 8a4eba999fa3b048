"""Faults of schedules, limits, batches, dead letters and clocks, which the scenarios of those must notice."""

from __future__ import annotations

from gauntlet.mutation import DB, LUA, Mutation

SERVED = ("valkey", "postgres")

MUTANTS_OF_LOAD = [
    Mutation(
        name="unguarded-slot",
        about="a slot is fired without a look at what was recorded last",
        changes=(
            (LUA + "fire.lua", "if not last_slot_is(key, expected) then", "if key == '' then"),
            (DB + "schedule.py", "row is None or _number(row[0]) != firing.expected", "row is None"),
        ),
        scenarios=("schedule",),
    ),
    Mutation(
        name="forgets-the-late",
        about="of several slots that are due only the last is fired, and nobody is told",
        changes=(("scheduling/service.py", "if slot in owed.fire else None", "if slot == owed.slots[-1] else None"),),
        scenarios=("schedule",),
    ),
    Mutation(
        name="drifting-interval",
        about="the next slot is counted from when the last one was fired",
        changes=(("scheduling/due.py", "return Due(fire=passed.slots[:BATCH],", "return Due(fire=(now,),"),),
        scenarios=("schedule",),
    ),
    Mutation(
        name="one-too-many",
        about="one job more than the limit may run at once",
        changes=(
            (LUA + "shared/limits.lua", "limit.key) >= limit.count", "limit.key) > limit.count"),
            ("jobs/limits.py", "holders >= limit.count", "holders > limit.count"),
        ),
        scenarios=("limits",),
    ),
    Mutation(
        name="burst-too-many",
        about="one job more than the burst may start at once",
        changes=(
            (LUA + "shared/limits.lua", "(limit.burst - 1) * limit.interval", "limit.burst * limit.interval"),
            ("jobs/limits.py", "(limit.burst - 1) * limit.interval", "limit.burst * limit.interval"),
        ),
        scenarios=("limits",),
    ),
    Mutation(
        name="permit-leaks",
        about="a permit is not given back by a rescue, or nobody who waits for it is told",
        changes=(
            (
                "stores/valkey/decisions.py",
                "permit = _permit_of(settlement.claim)",
                "permit = () if settlement.reclaim else _permit_of(settlement.claim)",
            ),
            (DB + "settle.py", "    if limited:\n", "    if limited and False:\n"),
        ),
        scenarios=("limits",),
    ),
    Mutation(
        name="unnamed-killed",
        about="a dead letter does not say which workers the job killed",
        changes=(("jobs/transitions.py", "{', '.join(workers)}", "{len(workers)} workers"),),
        scenarios=("poison",),
        stores=("valkey",),
    ),
    Mutation(
        name="loses-the-bytes",
        about="what cannot be read is buried without its bytes",
        changes=(
            (
                "jobs/transitions.py",
                "        raw=claim.raw,\n        queue=claim.queue,",
                "        raw=b'?',\n        queue=claim.queue,",
            ),
        ),
        scenarios=("poison",),
    ),
    Mutation(
        name="batch-settled-early",
        about="members of a batch count as done when they are collected",
        changes=(
            (
                "worker/attempts.py",
                "            collector.add(claim, time.monotonic())\n",
                "            collector.add(claim, time.monotonic())\n"
                "            from ..jobs.outcomes import Succeeded\n\n"
                "            self._settle(claim, Succeeded(), claim.started_at)\n",
            ),
        ),
        scenarios=("queues",),
    ),
    Mutation(
        name="batch-forgotten",
        about="a worker that ends forgets the members that wait for their batch",
        changes=(
            (
                "worker/attempts.py",
                "                self._settle(claim, Untouched(), claim.started_at)\n\n    def return_untouched",
                "\n    def return_untouched",
            ),
        ),
        scenarios=("queues",),
        stores=("valkey",),
    ),
    Mutation(
        name="host-clock",
        about="the store's operations go by the clock of the host that asks",
        changes=(
            (
                "stores/valkey/worker_store.py",
                "    def _now(self) -> Part:\n",
                "    def _now(self) -> Part:\n        import time\n\n        return repr(time.time())\n\n"
                "    def _then(self) -> Part:\n",
            ),
            (
                DB + "session.py",
                "return ServerMoment(vendor) if vendor.now else host_moment(vendor)",
                "return host_moment(vendor)",
            ),
        ),
        scenarios=("clocks",),
    ),
    Mutation(
        name="rescue-own-host",
        about="the rescuer only looks after workers of its own host",
        changes=(
            (
                "worker/rescuer.py",
                "if claim.lease.owner != self._keeper.owner]",
                "if claim.lease.owner.rpartition('-')[0] == self._keeper.owner.rpartition('-')[0]"
                " and claim.lease.owner != self._keeper.owner]",
            ),
        ),
        scenarios=("names",),
    ),
]
