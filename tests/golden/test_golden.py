"""The wire format, byte for byte.

`read/` holds payloads as the 3.2 line and its bare producer write them, `written/` what is written here. A change of a
file in `written/` is a change of the format: jobs in queues, and workers of other versions, must still be read.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from django_vtasks.jobs.codec import COMPRESS_THRESHOLD, MARKER, decode, decode_letter, encode, encode_letter, unpack
from django_vtasks.jobs.limits import JobLimit
from django_vtasks.jobs.model import (
    Attempt,
    DeadLetter,
    DeadReason,
    Failure,
    Job,
    OutcomeKind,
    Unique,
    UniqueMode,
)

FOLDER = Path(__file__).parent


def golden(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def a_job(job_id: str, *args, ts: float = 1795977851.8110075, **changes) -> Job:
    return Job(id=job_id, func="app.tasks.add", args=list(args), kwargs={}, enqueued_at=ts, **changes)


# -- what the 3.2 line writes -----------------------------------------------------------------------------------------

PLAIN = Job(
    id="iyHRmJonjQRxCmR1gnMW1pM0CFciOHDv",
    func="app.tasks.add",
    args=["plain", 1.5, None, True, [1, {"z": 1}]],
    kwargs={"key": "value"},
    enqueued_at=1795977851.7384727,
)
RESCUED = a_job("qICtRysFMBZXAAZUU31iaYdUc8YBz6Iz", "rescues", max_rescues=3, rescue_count=2)
MUTEX_KEY = "vtasks:unique:app.tasks.uni:07810ade039bf5c13c82b5e4541d00ff59273295093ea0ee8e83ed41c227a44b"
UNICODE = ['ünïcode 🎉 "quoted"', "2026-01-02T03:04:05+00:00", "00000000-0000-0000-0000-000000000001"]

READ = {
    "plain.json": PLAIN,
    "unicode.json": a_job("vFU0Z9aCXY5AmpE8SIkCDBgRHp7UwtJd", *UNICODE, ts=1795977851.808429),
    "priority.json": a_job("gWSR0E8KTIxPsZw0V2Ok2L11PQ17llBR", "high", ts=1795977851.8093262, priority=7),
    "delayed.json": a_job("AWuoLZd2MEyVAKrm8yGxJ7d6VYFBLRGu", "later", ts=1795977851.8096292, run_after=1893553445.0),
    "mutex.json": Job(
        id="Zu1Cs6BeDICltNRBgDRKgg5BTOC1NZGn",
        func="app.tasks.uni",
        args=["mutex"],
        kwargs={},
        enqueued_at=1795977851.8099563,
        unique=Unique(key=MUTEX_KEY),
    ),
    "throttle.json": a_job(
        "l5QAB9oUAQc31dzgJj3aDEWrzujkIwZL",
        "throttle",
        ts=1795977851.8106709,
        unique=Unique(key="throttle", mode=UniqueMode.WINDOW, window=30.0),
    ),
    "rescues.json": a_job("qICtRysFMBZXAAZUU31iaYdUc8YBz6Iz", "rescues", max_rescues=3),
    "rescued.json": RESCUED,
}


@pytest.mark.parametrize("name", READ)
def test_payloads_of_the_old_line_are_read_and_written_back_byte_for_byte(name):
    assert decode(golden(f"read/{name}")) == READ[name]
    assert encode(READ[name]) == golden(f"read/{name}")


def test_a_large_payload_of_the_old_line_is_read():
    raw = golden("read/large.zstd")
    job = decode(raw)
    assert (job.func, job.args) == ("app.tasks.add", ["x" * 2000])
    assert raw.startswith(MARKER)
    assert unpack(encode(job)) == unpack(raw)
    assert list(unpack(encode(job))) == list(unpack(raw))


def test_a_payload_of_the_bare_producer_is_read_without_run_after():
    job = decode(golden("read/bare_producer.json"))
    assert (job.func, job.queue, job.run_after) == ("apps.event_ingest.tasks.ingest_event", "ingest", None)
    assert job.args == [{"event": "x"}]


@pytest.mark.parametrize("name", ["letter.json", "letter.zstd"])
def test_dead_letters_of_the_old_line_are_read(name):
    letter = decode_letter(golden(f"read/{name}"))
    assert (letter.job, letter.reason, letter.failed_at) == (PLAIN, DeadReason.FAILED, 1795977600.25)
    assert (letter.failure.message, "ValueError: boom" in letter.failure.traceback) == ("boom", True)


def test_a_dead_letter_of_the_old_lines_rescuer_is_read_without_a_time():
    letter = decode_letter(golden("read/letter_of_a_rescue.json"))
    assert (letter.job, letter.failure.message) == (RESCUED, "Exceeded max_rescues (3)")
    assert (letter.failure.traceback, letter.failed_at) == ("", 0.0)


# -- what is written here ---------------------------------------------------------------------------------------------

ID = "0123456789abcdef0123456789abcdef"
FAILURE = Failure(
    exception_class="builtins.ValueError",
    message="boom",
    traceback="ValueError: boom\n",
    fingerprint="app.tasks.add:1",
)
FIRST = Attempt(
    number=1, worker_id="host-1.ab", started_at=1.5, ended_at=2.5, outcome=OutcomeKind.RAISED, failure=FAILURE
)
SECOND = Attempt(number=2, worker_id="host-2.cd", started_at=3.5, ended_at=4.5, outcome=OutcomeKind.SNOOZED)
TRIED = a_job(ID, 1, starts=2, failures=1, attempts=(FIRST, SECOND))

WRITTEN = {
    "plain": a_job(ID, 1, "x", None),
    "negative_priority": a_job(ID, 1, priority=-100, queue="mail"),
    "until_started": a_job(ID, 1, unique=Unique(key="k", mode=UniqueMode.UNTIL_STARTED)),
    "debounce": a_job(ID, 1, unique=Unique(key="k", mode=UniqueMode.DEBOUNCE, window=2.5), run_after=1893553445.0),
    "fraction_of_a_window": a_job(ID, 1, unique=Unique(key="k", mode=UniqueMode.WINDOW, window=0.25)),
    "result_ttl": a_job(ID, 1, result_ttl=0.0),
    "expiry_and_origin": a_job(ID, 1, expires_at=1893553445.0, retry_of="f" * 32),
    "limit": a_job(ID, 1, limit=JobLimit(concurrency_key="c", count=3, rate_key="r", interval=6.0, burst=10)),
    "metadata_and_trace": a_job(ID, 1, metadata={"page": 2}, trace={"traceparent": "00-1-2-01"}),
    "tried_twice": TRIED,
    "unknown_fields": a_job(ID, 1, extra={"later": [1], "ext": {"newer": True}}, result_ttl=5.0),
}
LETTERS = {
    "letter": DeadLetter(
        id=ID,
        raw=b"",
        queue="default",
        job=TRIED,
        reason=DeadReason.FAILED,
        failure=FAILURE,
        first_failed_at=2.5,
        failed_at=4.5,
    ),
    "letter_of_garbage": DeadLetter(
        id=ID,
        raw=b"\xff\x00garbage",
        queue="mail",
        job=None,
        reason=DeadReason.UNDECODABLE,
        failure=Failure(exception_class="x.JobUndecodable", message="not JSON", fingerprint="undecodable"),
        first_failed_at=2.5,
        failed_at=2.5,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_jobs_are_written_byte_for_byte(name):
    assert encode(WRITTEN[name]) == golden(f"written/{name}.json")
    assert decode(golden(f"written/{name}.json")) == WRITTEN[name]


@pytest.mark.parametrize("name", LETTERS)
def test_dead_letters_are_written_byte_for_byte(name):
    assert encode_letter(LETTERS[name], compress=False) == golden(f"written/{name}.json")


def test_a_dead_letter_of_garbage_keeps_its_bytes():
    assert decode_letter(golden("written/letter_of_garbage.json")).raw == b"\xff\x00garbage"


def test_no_file_is_left_over():
    written = {f"{name}.json" for name in (*WRITTEN, *LETTERS)}
    assert {path.name for path in (FOLDER / "written").iterdir()} == written


def test_the_id_is_always_the_last_field():
    """The Valkey store finds it there, and so may others."""
    for name in WRITTEN:
        assert golden(f"written/{name}.json").endswith(b'"id":"%s"}' % ID.encode())


@pytest.mark.parametrize(("size", "is_compressed"), [(0, False), (1, True)])
def test_payloads_longer_than_1024_bytes_are_compressed(size, is_compressed):
    empty = len(encode(a_job(ID, "")))
    raw = encode(a_job(ID, "x" * (COMPRESS_THRESHOLD - empty + size)))
    assert raw.startswith(MARKER) is is_compressed
