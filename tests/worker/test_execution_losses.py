"""Functions that are about to be called when the worker cannot be sure any more that their jobs are its own."""

from __future__ import annotations

import threading

import pytest

from django_vtasks import signals
from django_vtasks.jobs.outcomes import Interrupted, Succeeded, Untouched
from tests.worker.executing import bench, twins


class Lease:
    """May begin until it is `over`; `asked_in` are the threads that asked."""

    def __init__(self) -> None:
        self.over = False
        self.asked_in: list[int] = []

    def __call__(self) -> bool:
        self.asked_in.append(threading.get_ident())
        return not self.over


@pytest.fixture
def lease():
    return Lease()


@pytest.fixture
async def on(lease):
    async with bench(may_begin=lease, one_by_one=frozenset({"default"})) as made:
        yield made


@pytest.fixture
def heard():
    names: list[str] = []
    receivers = []
    for name in ("task_started", "task_finished", "task_failure"):

        def receiver(*, _heard=name, **_kwargs):
            names.append(_heard)

        receivers.append((getattr(signals, name), receiver))
        getattr(signals, name).connect(receiver, weak=False)
    yield names
    for signal, receiver in receivers:
        signal.disconnect(receiver)


async def test_what_waits_for_its_start_when_the_lease_runs_out_goes_back_uncalled(on, lease, heard):
    called = []

    def work():
        called.append(1)

    lease.over = True
    for function in twins(work):
        claim = on.claim(function)
        on.start(claim)
        [ended] = await on.end_of(claim)
        assert type(ended.outcome) is Untouched
        assert ended.decision.job == claim.job
    assert (called, heard, on.events) == ([], [], [])


async def test_it_is_asked_where_the_function_is_called(on, lease):
    here = threading.get_ident()
    for function, in_thread in zip(twins(lambda: None), (True, False), strict=True):
        lease.asked_in.clear()
        assert type(await on.outcome(function)) is Succeeded
        assert {thread != here for thread in lease.asked_in} == {in_thread}


async def test_a_start_that_was_announced_too_late_is_announced_as_over(on, lease, heard):
    called = []

    def work():
        called.append(1)

    def hold_up(**_kwargs):
        lease.over = True

    signals.task_started.connect(hold_up)
    try:
        for function in twins(work):
            lease.over = False
            heard.clear()
            outcome = await on.outcome(function)
            assert type(outcome) is Interrupted
            assert heard[0] == "task_started"
            assert len(heard) == 2
    finally:
        signals.task_started.disconnect(hold_up)
    assert called == []


async def test_members_are_not_tried_alone_once_the_lease_is_over(on, lease):
    calls = []

    def batch(members):
        calls.append(len(members))
        if len(members) > 1:
            raise ValueError("one of you")
        lease.over = True

    for function in twins(batch):
        lease.over = False
        calls.clear()
        task = on.task(function)
        claims = [on.claim(task, number) for number in range(3)]
        on.executor.start_batch(claims, on.done)
        ended = await on.end_of(*claims)
        assert [type(end.outcome) for end in ended] == [Succeeded, Interrupted, Interrupted]
        assert calls == [3, 1]
