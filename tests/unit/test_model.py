"""The values of the domain: what a record says of a job, and the quick way to make one job of another."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from django_vtasks.jobs.model import Attempt, Job, JobRecord, JobState, OutcomeKind, Running, assemble_job, evolve_job
from tests.support.builders import a_job
from tests.support.clock import START


def attempt(number: int, worker_id: str = "alpha") -> Attempt:
    started = START + number
    return Attempt(
        number=number, worker_id=worker_id, started_at=started, ended_at=started + 1, outcome=OutcomeKind.RAISED
    )


class TestQuickJobs:
    def test_an_assembled_job_is_a_job_like_any_other(self):
        job = a_job(args=["x"], priority=3)
        twin = assemble_job(*(getattr(job, field.name) for field in fields(Job)))
        assert (twin, type(twin), repr(twin)) == (job, Job, repr(job))
        assert pickle.loads(pickle.dumps(twin)) == copy.copy(twin) == job

    def test_it_cannot_be_changed(self):
        with pytest.raises(FrozenInstanceError):
            evolve_job(a_job(), priority=1).priority = 2

    def test_evolving_is_replacing(self):
        job = a_job()
        changes = {"starts": 2, "attempts": (attempt(1),), "metadata": {"a": 1}, "id": "new"}
        assert evolve_job(job, **changes) == replace(job, **changes)
        assert job == a_job()

    def test_a_field_that_does_not_exist_is_an_error(self):
        with pytest.raises(KeyError):
            evolve_job(a_job(), nonsense=1)

    def test_a_missing_value_is_an_error(self):
        with pytest.raises(TypeError):
            assemble_job("only", "two")


class TestJobRecord:
    def test_a_waiting_job_was_not_attempted(self):
        record = JobRecord(job=a_job(), state=JobState.READY)
        assert (record.started_at, record.last_attempted_at, record.worker_ids) == (None, None, ())

    def test_a_running_job_names_its_worker(self):
        record = JobRecord(
            job=a_job(), state=JobState.LEASED, running=Running(worker_id="alpha", started_at=START + 3)
        )
        assert (record.started_at, record.last_attempted_at, record.worker_ids) == (START + 3, START + 3, ("alpha",))

    def test_all_attempts_are_told_the_running_one_last(self):
        job = a_job(attempts=(attempt(1, "alpha"), attempt(2, "beta")))
        record = JobRecord(job=job, state=JobState.LEASED, running=Running(worker_id="gamma", started_at=START + 9))
        assert (record.started_at, record.last_attempted_at) == (START + 1, START + 9)
        assert record.worker_ids == ("alpha", "beta", "gamma")

    def test_an_ended_job_was_attempted_last_by_its_last_attempt(self):
        record = JobRecord(job=a_job(attempts=(attempt(1), attempt(2))), state=JobState.SUCCEEDED)
        assert (record.started_at, record.last_attempted_at) == (START + 1, START + 2)
