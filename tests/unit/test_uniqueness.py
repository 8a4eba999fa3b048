"""Unique keys: the vectors of the 3.2 line, and what a debounced job becomes."""

from __future__ import annotations

import datetime
import uuid

import pytest

from django_vtasks.jobs.model import UniqueMode
from django_vtasks.jobs.uniqueness import debounced, derive_key
from tests.support.builders import a_job, a_key
from tests.support.clock import START
from tests.support.naming import shown

FUNC = "app.tasks.add"

VECTORS = {
    "nothing": ([], {}, "f77c630d974b0686487567bec508f2eec008f066fff77df02bd0e3097534a941"),
    "keywords in any order": (
        [1, "a"],
        {"b": 2, "a": 1},
        "7ddccebe1afc36d01096cc92cd8122649f0c75b9e40fba0b510dbd2a1327f3e9",
    ),
    "every kind of JSON": (
        ["é", 1.5, None, True, [1, {"z": 1, "a": 2}]],
        {},
        "5d3578c1a6c6d6ba971a39d9477335968a5d3319ca4c3b04d15f52cb32f84f33",
    ),
    "datetime and UUID": (
        [datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), uuid.UUID(int=1)],
        {},
        "57872c2ab236f7a3d276a4d3c84d34a7a8103a54f88838d56fc69aa7e56e173a",
    ),
}


@pytest.mark.parametrize(("args", "kwargs", "digest"), VECTORS.values(), ids=VECTORS.keys())
def test_a_key_is_the_one_the_3_2_line_derives(args, kwargs, digest):
    assert derive_key(FUNC, args, kwargs) == f"vtasks:unique:{FUNC}:{digest}"


def test_tuples_and_lists_are_the_same_arguments():
    assert derive_key(FUNC, (1, (2,)), {}) == derive_key(FUNC, [1, [2]], {})


@pytest.mark.parametrize(
    "other",
    [("app.tasks.sub", [1], {}), (FUNC, [2], {}), (FUNC, [1], {"a": 1}), (FUNC, ["1"], {}), (FUNC, [[1]], {})],
    ids=shown,
)
def test_other_calls_have_other_keys(other):
    assert derive_key(*other) != derive_key(FUNC, [1], {})


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", 2**70, "\ud800"], ids=shown)
def test_what_is_not_json_is_refused(value):
    with pytest.raises(TypeError):
        derive_key(FUNC, [value], {})


class TestDebounced:
    def test_the_survivor_keeps_its_id_and_time_of_enqueue(self):
        waiting = a_job(id="first", args=["old"], unique=a_key(mode=UniqueMode.DEBOUNCE))
        newcomer = a_job(
            id="second", args=["new"], priority=3, enqueued_at=START + 5, unique=a_key(mode=UniqueMode.DEBOUNCE)
        )
        survivor = debounced(waiting, newcomer)
        assert (survivor.id, survivor.enqueued_at) == ("first", START)
        assert (survivor.args, survivor.priority) == (["new"], 3)

    @pytest.mark.parametrize(
        ("window", "asked", "due"),
        [(None, 50, 50), (60, 50, 50), (60, 60, 60), (60, 70, 60), (60, None, None), (0, 70, 0)],
    )
    def test_it_is_put_off_at_most_to_the_end_of_its_window(self, window, asked, due):
        unique = a_key(mode=UniqueMode.DEBOUNCE, window=window)
        newcomer = a_job(run_after=None if asked is None else START + asked, unique=unique)
        survivor = debounced(a_job(run_after=START + 1, unique=unique), newcomer)
        assert survivor.run_after == (None if due is None else START + due)
