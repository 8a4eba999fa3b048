"""Schedulers that are killed, frozen and started again: each slot becomes one job, on every kind of store."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from tests.support.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

INTERVAL = 0.5
TICK = {"task": "tests.project.tasks.record", "args": ["tick"], "schedule": INTERVAL, "catch_up": "all"}

# From the last slot backwards, for as long as there is a job for each slot.
SLOTS = """
from itertools import takewhile
from django_vtasks.scheduling.entries import parse
from django_vtasks.scheduling.firing import job_id
from django_vtasks.scheduling.overview import past_slots
from django.conf import settings

(entry,) = parse(settings.VTASKS_SCHEDULE).usable
last = backend.admin_store.recorded_slots(["tick"]).get("tick")
like = backend.client_store.new_id()
find = lambda slot: backend.client_store.get(job_id("tick", slot, like=like))
records = takewhile(bool, map(find, past_slots(entry, last))) if last else ()
show([record.state.value for record in records])
"""


def slots(site):
    """The state of the job of every slot, the latest first."""
    return json.loads(site.python(SLOTS))


def test_schedulers_that_are_killed_and_frozen_fire_each_slot_once(site):
    site.settings = site.settings | {"VTASKS_SCHEDULE": {"tick": TICK}}

    def scheduler():
        return site.worker("--scheduler", "--queue", "nothing")

    def fired(count):
        eventually(lambda: len(slots(site)) >= count, within=90)

    with ExitStack() as running:
        worker = running.enter_context(site.worker())
        killed, frozen, third = (running.enter_context(scheduler()) for _ in range(3))
        fired(3)
        site.freeze(frozen)
        killed.kill()
        fired(7)
        restarted = running.enter_context(scheduler())
        site.freeze(third)
        fired(12)
        frozen.resume()
        third.resume()
        fired(17)
        for one in (frozen, third, restarted):
            assert one.terminate() == 0
        eventually(lambda: set(slots(site)) == {"succeeded"}, within=60)
        assert site.effects() == {"tick": len(slots(site))}
        assert worker.terminate() == 0
