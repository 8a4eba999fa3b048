"""Jobs made in a mould are those that would be made and written one by one."""

from __future__ import annotations

import string
from dataclasses import replace
from types import SimpleNamespace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_vtasks.jobs.codec import MARKER, decode, encode, pack, to_payload
from django_vtasks.jobs.model import evolve_job
from django_vtasks.jobs.mould import Mould
from django_vtasks.tasks.arguments import written
from tests.support.builders import a_job

TEMPLATES = [
    a_job(),
    a_job(queue='a "queue"', priority=-7, max_rescues=3, result_ttl=5.0, metadata={"id": 1, "é": []}),
]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(string.printable + "é\u2028", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def moulded(template, args, kwargs, job_id="an-id", now=1754300000.123456):
    task = SimpleNamespace(module_path="app.tasks.any", func=print, takes_context=False)
    text = written(task, args, kwargs)
    return Mould(template).job(job_id, *orjson.loads(text.joined), now, text)


@given(
    st.sampled_from(TEMPLATES),
    st.lists(JSON, max_size=3),
    st.dictionaries(st.text(max_size=4), JSON, max_size=3),
    st.text(min_size=1, max_size=8),
    st.floats(0, 2e9),
)
def test_it_is_the_job_and_the_bytes_made_anew(template, args, kwargs, job_id, now):
    made = moulded(template, args, kwargs, job_id, now)
    anew = replace(template, id=job_id, args=args, kwargs=kwargs, enqueued_at=now)
    assert made == anew
    assert encode(made, compress=False) == pack(to_payload(anew), compress=False)
    assert decode(encode(made)) == anew


@pytest.mark.parametrize("change", [evolve_job, replace])
def test_a_changed_copy_is_written_anew(change):
    made = moulded(TEMPLATES[0], [1], {})
    assert orjson.loads(encode(change(made, priority=9)))["priority"] == 9


def test_a_long_one_is_compressed_where_that_is_wanted():
    made = moulded(TEMPLATES[0], ["x" * 2000], {})
    assert encode(made).startswith(MARKER)
    assert not encode(made, compress=False).startswith(MARKER)
    assert decode(encode(made)) == made
