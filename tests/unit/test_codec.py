"""Wire format version 1: what is written, what is read, and what is refused without harm."""

from __future__ import annotations

import string
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_vtasks.jobs import payload as payloads
from django_vtasks.jobs import zstd
from django_vtasks.jobs.codec import (
    MARKER,
    decode,
    encode,
    from_payload,
    pack,
    squeeze,
    squeeze_if_possible,
    to_payload,
    unpack,
)
from django_vtasks.jobs.errors import CodecError
from django_vtasks.jobs.limits import JobLimit
from django_vtasks.jobs.model import Attempt, Failure, Job, OutcomeKind, Unique, UniqueMode
from tests.support.builders import a_failure, a_job, a_key
from tests.support.clock import START
from tests.support.naming import shown

WIRE_ORDER = [
    "func", "args", "kwargs", "queue", "priority", "ts", "retries", "unique", "unique_key", "ttl",
    "remove_unique_on_complete", "max_rescues", "_rescue_count", "run_after", "id",
]  # fmt: skip

#: A payload as a Python producer of the 3.2 line writes it.
FROM_3_2 = {
    "func": "app.tasks.add", "args": [1, "é"], "kwargs": {"x": None}, "queue": "default", "priority": 0,
    "ts": 1754300000.123456, "retries": 0, "unique": False, "unique_key": None, "ttl": None,
    "remove_unique_on_complete": True, "max_rescues": 0, "_rescue_count": 0, "run_after": None,
    "id": "Ab3dEfGh1jKlMnOpQrStUvWxYz012345",
}  # fmt: skip

ATTEMPT = Attempt(
    number=1,
    worker_id="host-1:aaaa",
    started_at=START,
    ended_at=START + 1.5,
    outcome=OutcomeKind.RAISED,
    failure=a_failure(),
)


class TestEncode:
    def test_the_fields_come_in_the_order_of_the_3_2_line(self):
        assert list(orjson.loads(encode(a_job()))) == WIRE_ORDER

    def test_a_plain_job_is_written_as_the_3_2_line_writes_it(self):
        job = decode(orjson.dumps(FROM_3_2))
        assert encode(job) == orjson.dumps(FROM_3_2)

    def test_what_is_ours_travels_in_one_more_field_only_when_there_is_some(self):
        assert "ext" not in to_payload(a_job())
        payload = to_payload(a_job(result_ttl=5.0, trace={"t": "1"}))
        assert list(payload) == [*WIRE_ORDER[:-1], "ext", "id"]
        assert payload["ext"] == {"result_ttl": 5.0, "trace": {"t": "1"}}

    @pytest.mark.parametrize(
        ("unique", "wire"),
        [
            (None, (False, None, None, True)),
            (a_key("k"), (True, "k", None, True)),
            (a_key("k", window=30.0), (True, "k", 30, True)),
            (a_key("k", UniqueMode.WINDOW, 30.0), (True, "k", 30, False)),
            (a_key("k", UniqueMode.WINDOW, 0.2), (True, "k", 1, False)),
            (a_key("k", UniqueMode.UNTIL_STARTED), (True, "k", None, True)),
            (a_key("k", UniqueMode.DEBOUNCE, 90.0), (True, "k", 90, True)),
        ],
        ids=shown,
    )
    def test_a_unique_key_is_written_in_the_words_of_the_3_2_line(self, unique, wire):
        payload = to_payload(a_job(unique=unique))
        names = ("unique", "unique_key", "ttl", "remove_unique_on_complete")
        assert tuple(payload[name] for name in names) == wire

    def test_a_payload_is_compressed_only_above_the_threshold(self):
        room = 1024 - len(encode(a_job(args=[""])))
        at, above = encode(a_job(args=["x" * room])), encode(a_job(args=["x" * (room + 1)]))
        assert (len(at), at[:1]) == (1024, b"{")
        assert above.startswith(MARKER)
        assert decode(above).args == ["x" * (room + 1)]

    def test_a_small_payload_loads_no_zstd_to_learn_whether_there_is_any(self, monkeypatch):
        def loading():
            raise AssertionError("a provider of zstd was looked for")

        monkeypatch.setattr(zstd, "_provider", loading)
        small = pack({"x": "a" * 900})
        assert squeeze_if_possible(small) == small
        with pytest.raises(AssertionError):
            squeeze_if_possible(small * 2)

    def test_a_large_payload_stays_as_it_is_where_no_zstd_is_installed(self, monkeypatch):
        large = pack({"x": "a" * 2000}, compress=False)
        assert squeeze_if_possible(large) == squeeze(large)

        def without():
            raise CodecError("none here")

        monkeypatch.setattr(zstd, "_provider", without)
        assert squeeze_if_possible(large) == large

    def test_compression_can_be_left_out(self):
        assert encode(a_job(args=["x" * 5000]), compress=False)[:1] == b"{"

    def test_a_limited_job_is_never_compressed(self):
        """A store that has nothing but payloads reads the limit out of them."""
        limit = JobLimit(concurrency_key="k", count=1)
        assert encode(a_job(args=["x" * 5000], limit=limit))[:1] == b"{"

    @pytest.mark.parametrize("value", [object(), {1: 2}, b"bytes", {1, 2}, 2**70, "\ud800"], ids=shown)
    def test_what_is_not_json_is_refused(self, value):
        with pytest.raises(CodecError, match="not JSON"):
            encode(a_job(args=[value]))

    def test_what_is_nested_too_deeply_is_refused(self):
        deep: list = []
        for _ in range(300):
            deep = [deep]
        with pytest.raises(CodecError):
            encode(a_job(args=deep))


class TestDecode:
    def test_a_payload_of_the_3_2_line_is_read(self):
        job = decode(orjson.dumps(FROM_3_2))
        assert job == Job(
            id="Ab3dEfGh1jKlMnOpQrStUvWxYz012345",
            func="app.tasks.add",
            args=[1, "é"],
            kwargs={"x": None},
            enqueued_at=1754300000.123456,
        )

    def test_a_foreign_producer_may_leave_out_run_after(self):
        raw = orjson.dumps({name: value for name, value in FROM_3_2.items() if name != "run_after"})
        assert decode(raw).run_after is None

    def test_the_least_is_a_function_and_its_arguments(self):
        job = decode(b'{"func":"a.b","args":[],"kwargs":{}}', fallback_id="row-id", fallback_queue="mail")
        assert (job.id, job.queue, job.priority, job.enqueued_at) == ("row-id", "mail", 0, 0.0)

    @pytest.mark.parametrize("absent", [None, ""], ids=shown)
    def test_an_empty_id_or_queue_is_an_absent_one(self, absent):
        job = decode(orjson.dumps(FROM_3_2 | {"id": absent, "queue": absent}), fallback_id="i", fallback_queue="q")
        assert (job.id, job.queue) == ("i", "q")

    @pytest.mark.parametrize(
        ("wire", "unique"),
        [
            ({"unique": True, "unique_key": "k", "ttl": 5}, Unique(key="k", window=5.0)),
            ({"unique": True, "unique_key": "k"}, Unique(key="k")),
            (
                {"unique": True, "unique_key": "k", "ttl": 5, "remove_unique_on_complete": False},
                Unique(key="k", mode=UniqueMode.WINDOW, window=5.0),
            ),
            ({"unique": False, "unique_key": "k"}, None),
        ],
        ids=shown,
    )
    def test_a_unique_key_of_the_3_2_line_is_understood(self, wire, unique):
        assert decode(orjson.dumps(FROM_3_2 | wire)).unique == unique

    def test_whole_numbers_may_stand_for_times(self):
        job = decode(orjson.dumps(FROM_3_2 | {"ts": 1754300000, "run_after": 1754300060}))
        assert (job.enqueued_at, job.run_after) == (1754300000.0, 1754300060.0)

    @pytest.mark.parametrize(("given", "kept"), [(101, 100), (-101, -100), (10**18, 100), (100, 100)])
    def test_a_priority_beyond_the_range_is_clamped(self, given, kept):
        assert decode(orjson.dumps(FROM_3_2 | {"priority": given})).priority == kept

    def test_unknown_fields_are_written_back(self):
        raw = orjson.dumps(FROM_3_2 | {"shiny": [1, {"a": None}], "ext": {"newer": 1, "retry_of": "x"}})
        job = decode(raw)
        assert job.extra == {"shiny": [1, {"a": None}], "ext": {"newer": 1}}
        again = orjson.loads(encode(job))
        assert (again["shiny"], again["ext"]) == ([1, {"a": None}], {"newer": 1, "retry_of": "x"})

    def test_the_fields_of_a_dead_letter_do_not_stick_to_the_job(self):
        letter = FROM_3_2 | {"error_msg": "x", "error_traceback": "y", "failed_at": 1.0, "letter": {}}
        assert decode(orjson.dumps(letter)) == decode(orjson.dumps(FROM_3_2))


WRONG = {
    "func": [None, "", 7, ["a.b"], {}],
    "args": [None, {}, "text", 7],
    "kwargs": [None, [], "text", 7],
    "id": [7, [], True],
    "queue": [7, {}, False],
    "priority": ["high", 1.5, True, []],
    "max_rescues": ["1", 0.5, True],
    "_rescue_count": ["1", 0.5, True],
    "ts": ["now", True, -1, 1e300, 253402300800],
    "run_after": ["2026-01-01", True, -1, 1e300, []],
    "unique_key": [7, []],
    "ttl": ["5", True],
    "ext": [[], "text", 7, {"mode": "forever"}, {"attempts": [7]}, {"attempts": [{"number": "x"}]}, {"starts": "1"},
            {"metadata": []}, {"trace": []}, {"retry_of": 7}, {"expires_at": 1e300}, {"result_ttl": "long"},
            {"attempts": 7}, {"window": "x", "mode": "window"}],
}  # fmt: skip


hostile_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(string.ascii_letters, max_size=5),
)
inner_names = st.sampled_from(["mode", "window", "starts", "attempts", "metadata", "number", "limit", "key"])
hostile_values = st.recursive(
    hostile_scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(inner_names, inner, max_size=3),
    max_leaves=5,
)
hostile_objects = st.dictionaries(st.sampled_from([*WIRE_ORDER, "ext", "letter", "shiny"]), hostile_values)


class TestHostileInput:
    """Invariant 11: a clear error, and never another one."""

    @pytest.mark.parametrize(
        "raw",
        [
            b"",
            b"\x00",
            b"\xff\xfe",
            b"null",
            b"[]",
            b"7",
            b'"text"',
            b"{",
            b"{}",
            b'{"func": NaN}',
            b'{"func":"a","args":[1e999],"kwargs":{}}',
            b'{"func":"\\ud800","args":[],"kwargs":{}}',
            MARKER,
            MARKER + b"{}",
            MARKER + b"\x28\xb5\x2f\xfd",
            MARKER + zstd.compress(b"[]"),
            MARKER + zstd.compress(b"x" * 2000)[:-5],
            MARKER + MARKER + zstd.compress(b"{}"),
        ],
        ids=shown,
    )
    def test_bytes_that_are_no_job_are_refused(self, raw):
        with pytest.raises(CodecError):
            decode(raw)

    @pytest.mark.parametrize(
        ("field", "value"),
        [(field, value) for field, values in WRONG.items() for value in values],
        ids=lambda value: value if isinstance(value, str) else repr(value),
    )
    def test_a_wrong_field_is_named(self, field, value):
        raw = orjson.dumps(FROM_3_2 | {"unique": True, "unique_key": "k"} | {field: value})
        with pytest.raises(CodecError, match=r"field `|history"):
            decode(raw)

    def test_a_decompression_bomb_is_refused_in_bounded_memory(self, monkeypatch):
        monkeypatch.setattr(zstd, "MAX_DECOMPRESSED", 10_000)
        bomb = MARKER + zstd.compress(b" " * 50_000_000)
        assert len(bomb) < 10_000
        with pytest.raises(CodecError, match="decompresses to more than"):
            decode(bomb)

    def test_what_could_be_read_but_never_written_back_is_refused(self):
        raw = b'{"func":"a.b","kwargs":{},"args":' + b"[" * 300 + b"]" * 300 + b"}"
        assert orjson.loads(raw)
        with pytest.raises(CodecError):
            decode(raw)

    def test_wide_arguments_are_not_taken_for_deep_ones(self):
        raw = orjson.dumps(FROM_3_2 | {"args": [[number] for number in range(5000)]})
        assert len(decode(raw).args) == 5000

    def test_a_missing_zstd_provider_is_told_with_its_remedy(self, monkeypatch):
        def missing():
            raise CodecError("pip install 'django-vtasks[valkey]'")

        compressed = encode(a_job(args=["x" * 5000]))
        monkeypatch.setattr(zstd, "_provider", missing)
        assert decode(encode(a_job())) == a_job()
        with pytest.raises(CodecError, match="pip install"):
            decode(compressed)

    @given(st.binary(max_size=200))
    def test_any_bytes_are_a_job_or_a_clear_error(self, raw):
        for candidate in (raw, MARKER + raw):
            try:
                decode(candidate)
            except CodecError:
                pass

    @given(hostile_objects)
    def test_any_object_is_a_job_that_can_be_written_back_or_a_clear_error(self, fields):
        raw = orjson.dumps(FROM_3_2 | fields)
        try:
            job = decode(raw)
        except CodecError:
            return
        assert decode(encode(job)) == job


# --- round trips -------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.text(string.ascii_letters, min_size=1, max_size=10)
moments = st.floats(0, 4e9)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
objects = st.dictionaries(texts, json_values, max_size=3)
failures = st.builds(Failure, exception_class=texts, message=texts, traceback=texts, fingerprint=texts)
attempts = st.builds(
    Attempt,
    number=st.integers(1, 1000),
    worker_id=names,
    started_at=moments,
    ended_at=moments,
    outcome=st.sampled_from(OutcomeKind),
    failure=st.none() | failures,
)
uniques = st.one_of(
    st.builds(Unique, key=names, window=st.none() | st.floats(0.01, 1e6)),
    st.builds(Unique, key=names, mode=st.just(UniqueMode.WINDOW), window=st.floats(0.01, 1e6)),
    st.builds(Unique, key=names, mode=st.just(UniqueMode.UNTIL_STARTED)),
    st.builds(Unique, key=names, mode=st.just(UniqueMode.DEBOUNCE), window=st.none() | st.floats(0.01, 1e6)),
)
limits = st.builds(
    JobLimit,
    concurrency_key=names,
    count=st.integers(1, 100),
    rate_key=names,
    interval=st.floats(0.01, 1000),
    burst=st.integers(1, 50),
)
histories = st.lists(attempts, min_size=1, max_size=4).map(tuple)
jobs = st.builds(
    Job,
    id=names,
    func=names,
    args=st.lists(json_values, max_size=3),
    kwargs=objects,
    queue=names,
    priority=st.integers(-100, 100),
    enqueued_at=moments,
    run_after=st.none() | moments,
    unique=st.none() | uniques,
    max_rescues=st.integers(0, 10),
    rescue_count=st.integers(0, 10),
    result_ttl=st.none() | st.floats(0, 1e6),
    expires_at=st.none() | moments,
    retry_of=st.none() | names,
    limit=st.none() | limits,
    metadata=objects,
    trace=st.dictionaries(names, texts, max_size=2),
    extra=st.dictionaries(names.map("x_{}".format), json_values, max_size=2),
)
started_jobs = st.builds(
    lambda job, history, failed: replace(job, starts=len(history) + 3, failures=failed, attempts=history),
    jobs,
    histories,
    st.integers(0, 4),
)


@given(st.one_of(jobs, started_jobs))
def test_every_job_survives_the_round_trip(job):
    assert decode(encode(job)) == job
    assert decode(encode(job, compress=False)) == job


@given(jobs)
def test_the_quick_way_and_the_careful_way_read_the_same(job):
    payload = unpack(encode(job))
    quick = payloads._ordinary(payload)
    if quick is not None:
        assert quick == payloads._checked(payload, "", "default")


def test_the_quick_way_reads_what_is_ordinary():
    """Else the property above says nothing."""
    for job in (a_job(), a_job(run_after=START, priority=-3), a_job(unique=a_key("k", UniqueMode.WINDOW, 5.0))):
        assert payloads._ordinary(to_payload(job)) == job


def test_packing_and_unpacking_are_inverse():
    payload = {"a": [1, {"b": None}], "long": "x" * 5000}
    assert unpack(pack(payload)) == unpack(pack(payload, compress=False)) == payload
    assert from_payload(FROM_3_2) == decode(orjson.dumps(FROM_3_2))


def test_the_history_of_an_attempt_survives():
    job = a_job(starts=1, failures=1, attempts=(ATTEMPT,))
    assert decode(encode(job)).attempts == (ATTEMPT,)
