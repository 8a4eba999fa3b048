"""The bytes of dead letters: ours, those of the 3.2 line, and anything else that may lie among them."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_vtasks.jobs.codec import decode, decode_letter, encode, encode_letter, unpack
from django_vtasks.jobs.model import DeadReason
from tests.support.builders import a_failure, a_job, a_letter
from tests.support.clock import START
from tests.unit.test_codec import FROM_3_2

FAILED_IN_3_2 = FROM_3_2 | {
    "error_msg": "division by zero",
    "error_traceback": "Traceback (most recent call last):\n  ...\nZeroDivisionError: division by zero\n",
    "failed_at": 1754300001.5,
}


@pytest.mark.parametrize("reason", DeadReason)
def test_a_letter_survives_the_round_trip(reason):
    letter = a_letter(reason=reason, first_failed_at=START - 5, job=a_job(args=["x"], extra={"shiny": 1}))
    again = decode_letter(encode_letter(letter))
    assert (again.id, again.queue, again.job, again.reason) == (letter.id, letter.queue, letter.job, reason)
    assert (again.failure, again.first_failed_at, again.failed_at) == (letter.failure, START - 5, START)
    assert decode(again.raw) == letter.job


@pytest.mark.parametrize("raw", [b"", b"\xff\x00\x80", bytes(range(256)), b"x" * 100_000], ids=len)
def test_bytes_that_are_no_job_survive_inside_a_letter(raw):
    letter = a_letter(id="some-id", raw=raw, job=None, queue="mail", reason=DeadReason.UNDECODABLE)
    assert decode_letter(encode_letter(letter)) == letter


def test_the_fields_of_the_3_2_line_are_written():
    payload = unpack(encode_letter(a_letter()))
    assert (payload["error_msg"], payload["failed_at"]) == ("boom", START)
    assert payload["error_traceback"].startswith("Traceback")
    assert payload["func"] == a_job().func


def test_text_that_utf8_cannot_say_is_escaped():
    letter = a_letter(failure=a_failure("\ud800 bad", traceback="\udfff", fingerprint="\ud800"))
    again = decode_letter(encode_letter(letter)).failure
    assert (again.message, again.traceback, again.fingerprint) == ("\\ud800 bad", "\\udfff", "\\ud800")


class TestLettersOfThe32Line:
    def test_a_failed_job_is_read(self):
        letter = decode_letter(orjson.dumps(FAILED_IN_3_2))
        assert (letter.id, letter.reason, letter.failed_at) == (FROM_3_2["id"], "failed", 1754300001.5)
        assert letter.failure.message == "division by zero"
        assert letter.first_failed_at == letter.failed_at

    @pytest.mark.parametrize(
        ("traceback", "exception_class"),
        [
            ('Traceback (most recent call last):\n  File "a.py", line 1\nx.Odd: one\ntwo: three\n', "x.Odd"),
            ("Traceback (most recent call last):\n  a\nKeyError: 1\n\nDuring handling of the above exception, another "
             "exception occurred:\n\nTraceback (most recent call last):\n  b\nValueError\n", "ValueError"),
            ("NoneType: None\n", ""),
            ("", ""),
            ("no traceback at all!", ""),
        ],
    )  # fmt: skip
    def test_the_class_is_that_of_the_last_exception_whatever_its_message(self, traceback, exception_class):
        letter = decode_letter(orjson.dumps(FAILED_IN_3_2 | {"error_traceback": traceback}))
        assert letter.failure.exception_class == exception_class

    def test_its_exception_class_and_group_are_read_off_the_traceback(self):
        letter = decode_letter(orjson.dumps(FAILED_IN_3_2))
        assert letter.failure.exception_class == "ZeroDivisionError"
        assert letter.failure.fingerprint == "app.tasks.add:ZeroDivisionError"

    def test_a_rescued_job_is_told_apart(self):
        letter = decode_letter(orjson.dumps(FROM_3_2 | {"error_msg": "Exceeded max_rescues (2)"}))
        assert (letter.reason, letter.failed_at) == ("rescued_too_often", 0.0)

    def test_a_job_that_could_never_run_keeps_its_message_and_bytes(self):
        damaged = {name: value for name, value in FAILED_IN_3_2.items() if name != "kwargs"}
        raw = orjson.dumps(damaged)
        letter = decode_letter(raw)
        assert (letter.id, letter.reason, letter.job, letter.raw) == (FROM_3_2["id"], "undecodable", None, raw)
        assert letter.failure.message == "division by zero"

    def test_a_job_without_an_id_gets_the_one_given(self):
        letter = decode_letter(orjson.dumps(FAILED_IN_3_2 | {"id": None}), fallback_id="row", fallback_queue="q")
        assert (letter.id, letter.queue) == ("row", "default")


class TestHostileLetters:
    @pytest.mark.parametrize(
        "raw",
        [
            b"",
            b"garbage",
            b"zstd:garbage",
            b"[]",
            b"{}",
            orjson.dumps(FAILED_IN_3_2 | {"letter": []}),
            orjson.dumps(FAILED_IN_3_2 | {"letter": {"reason": "bored"}}),
            orjson.dumps(FAILED_IN_3_2 | {"letter": {"raw": "\u20ac"}}),
            orjson.dumps(FAILED_IN_3_2 | {"letter": {"raw": 7}}),
            orjson.dumps(FAILED_IN_3_2 | {"failed_at": "yesterday"}),
            orjson.dumps(FAILED_IN_3_2 | {"failed_at": 1e300}),
            orjson.dumps(FAILED_IN_3_2 | {"func": 7}),
        ],
        ids=range(12),
    )
    def test_whatever_lies_there_is_a_letter_with_its_bytes(self, raw):
        letter = decode_letter(raw, fallback_id="fallback", fallback_queue="q")
        assert (letter.raw, letter.job, letter.reason) == (raw, None, "undecodable")
        assert letter.id in {"fallback", FROM_3_2["id"]}
        assert letter.failure.message

    def test_messages_of_other_types_are_left_out(self):
        letter = decode_letter(orjson.dumps(FAILED_IN_3_2 | {"error_msg": 7, "error_traceback": ["x"]}))
        assert (letter.failure.message, letter.failure.traceback) == ("", "")

    @given(st.binary(max_size=300))
    def test_any_bytes_make_a_letter_that_can_be_written_and_read_again(self, raw):
        letter = decode_letter(raw, fallback_id="id")
        assert decode_letter(encode_letter(letter)) == letter


def test_a_letter_pushed_back_as_a_job_is_that_job():
    """What operators of the 3.2 line do by hand: move an element of the list of dead letters to its queue."""
    job = a_job(args=["x"])
    assert decode(encode_letter(a_letter(job=job))) == job
    assert encode(decode(encode_letter(a_letter(job=job)))) == encode(job)
