"""What is kept of a job that ended: the payload as it came with what is new, or one written anew."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from django_vtasks.jobs.codec import decode, encode, to_payload
from django_vtasks.jobs.model import Claim, JobState, Lease, UniqueMode, evolve_job
from django_vtasks.jobs.outcomes import Discarded, Succeeded
from django_vtasks.jobs.transitions import Policy, decide
from django_vtasks.stores.valkey.records import FINISHED, ended_record, finished_record
from tests.support.builders import a_failure, a_job, a_key
from tests.support.clock import START

POLICY = Policy(result_ttl=60)


def compact(**fields) -> bytes:
    """A payload of the 3.2 line, with fields changed or added."""
    return json.dumps(to_payload(a_job()) | fields, separators=(",", ":")).encode()


def spaced(raw: bytes) -> bytes:
    return json.dumps(json.loads(raw)).encode()


CAME = {
    "plain": encode(a_job()),
    "unique": encode(a_job(unique=a_key())),
    "window": encode(a_job(unique=a_key(mode=UniqueMode.WINDOW, window=60))),
    "until started": encode(a_job(unique=a_key(mode=UniqueMode.UNTIL_STARTED))),
    "its own result_ttl": encode(a_job(result_ttl=5.0)),
    "metadata": encode(a_job(metadata={"a": 1})),
    "a field of the future": compact(shard=7)[:-1].replace(b',"shard":7', b"") + b',"shard":7}',
    "a field of the future before the id": encode(a_job(extra={"shard": 7})),
    "foreign spelling": spaced(encode(a_job())),
    "a newline behind it": encode(a_job()) + b"\n",
    "no id": spaced(encode(a_job())).replace(b', "id": "' + b"0" * 32 + b'"', b""),
    "ext in an argument": encode(a_job(args=['"ext"'])),
    "an object in an argument": encode(a_job(args=[{"id": "0" * 32}])),
    "long": encode(a_job(args=["x" * 800])),
    "compressed": encode(a_job(args=["x" * 5000])),
    "an unusual id": encode(a_job(id='a"b\\c')),
    "not ASCII": encode(a_job(id="ünï", args=["🎉"])),
}


def a_claim_of(raw: bytes) -> Claim:
    job = decode(raw, fallback_id="0" * 32)
    lease = Lease(job_id=job.id, token="1", owner="alpha")
    return Claim(lease=lease, raw=raw, queue=job.queue, started_at=START, job=job)


@pytest.mark.parametrize("outcome", [Succeeded(value=b'{"a":[1]}'), Discarded(failure=a_failure("ünï \ud800"))])
@pytest.mark.parametrize("raw", CAME.values(), ids=CAME.keys())
def test_the_record_is_of_the_job_and_its_attempt(raw, outcome):
    claim = a_claim_of(raw)
    finish = decide(claim, outcome, POLICY, START + 2)
    found = ended_record(finished_record(finish, claim), None, START + 3)
    assert found.job.attempts[0].started_at == START
    assert (found.job.starts, found.job.args, found.job.id) == (1, claim.job.args, claim.job.id)
    assert (found.state, found.finished_at) == (finish.state, START + 2)
    assert found.value == (outcome.value if isinstance(outcome, Succeeded) else None)
    expected = decode(encode(finish.job, compress=False))
    assert found.job == expected
    assert ended_record(finished_record(finish, claim), None, START + 2 + 61) is None


def test_a_later_attempt_and_metadata_that_the_function_left_are_in_it():
    first = a_claim_of(encode(a_job()))
    again = decide(first, Succeeded(value=b"1"), POLICY, START + 1).job
    claim = a_claim_of(encode(again))
    told = evolve_job(claim.job, metadata={"seen": 3})
    finish = decide(replace(claim, job=told), Succeeded(value=b"2"), POLICY, START + 2)
    found = ended_record(finished_record(finish, claim), None, START + 3)
    assert (found.job.starts, len(found.job.attempts), found.job.metadata) == (2, 2, {"seen": 3})
    plain = a_claim_of(encode(a_job()))
    told = replace(plain, job=evolve_job(plain.job, metadata={"seen": 4}))
    finish = decide(told, Succeeded(value=b"2"), POLICY, START + 2)
    assert ended_record(finished_record(finish, told), None, START + 3).job.metadata == {"seen": 4}


def test_the_payload_of_a_first_attempt_is_not_written_anew():
    claim = a_claim_of(CAME["plain"])
    finish = decide(claim, Succeeded(value=b"1"), POLICY, START + 2)
    assert finish.state is JobState.SUCCEEDED
    assert finished_record(finish, claim).startswith(FINISHED + claim.raw[:-1] + b",")
