"""The last hour: samples as text, and what is read out of them."""

from __future__ import annotations

import itertools

import pytest

from django_vtasks.jobs.samples import (
    BUCKET,
    KEPT,
    SPAN,
    Sample,
    Standing,
    decode_samples,
    encode_samples,
    merged,
    span_of,
    spans_kept,
)
from django_vtasks.operating.history import POINTS, History, histories

NOW = 1_800_000_000.0 + 2 * BUCKET
FULL = Sample(
    at=NOW - BUCKET,
    queue="mails",
    started=1,
    succeeded=2,
    failed=3,
    discarded=4,
    retried=5,
    standing=Standing(ready=6, scheduled=7, leased=8, oldest=9.5),
)


def test_samples_come_back_from_their_text():
    bare = Sample(at=NOW, queue="a\n\ud800é", started=1)
    text = encode_samples([FULL, bare])
    assert text.isascii()
    assert decode_samples(text) == [FULL, bare]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "null", "[1]", '["x"]', "[[]]", '[[1,"a"]]', '[[1,"a",1,1,1,1]]', '[[1,"a",1,1,1,1,-1]]'),
        *('[["x","a",1,1,1,1,1]]', "[[1,2,1,1,1,1,1]]", '[[1,"a",1,1,1,1,1.5]]', '[[1,"a",1,1,1,1,1,2,3,4,"x"]]'),
        *('[[1,"\\\\",1,1,1,1,1]]', '[[1,"a",1,1,1,1,99999999999999999999]]'),
    ],
)
def test_a_damaged_text_has_no_samples(text):
    """Invariant 11."""
    assert decode_samples(text) == []


def test_workers_are_added_up_and_the_old_is_left_out():
    others = [Sample(at=FULL.at, queue="mails", started=10), Sample(at=NOW - KEPT - 1, queue="old", started=1)]
    [one] = merged([*others, FULL], since=NOW - KEPT)
    assert (one.started, one.standing) == (11, FULL.standing)


def test_the_spans_that_are_kept_cover_the_hour():
    kept = spans_kept(NOW)
    assert kept[0] == span_of(NOW - KEPT)
    assert kept[-1] == span_of(NOW)
    assert len(kept) == KEPT / SPAN + 1


# -- the chart and the rates ------------------------------------------------------------------------------------------


def history(*samples: Sample) -> History:
    return histories(merged(samples, since=NOW - KEPT), NOW)["q"]


def sample(ago: float, *, ready: int | None = None, **counts: int) -> Sample:
    standing = None if ready is None else Standing(ready=ready, oldest=float(ready))
    return Sample(at=NOW - ago, queue="q", standing=standing, **counts)


def test_an_hour_has_sixty_points_and_the_last_is_now():
    points = history(sample(BUCKET, started=1)).points
    assert len(points) == POINTS == 60
    assert points[-1].at <= NOW < points[-1].at + 60
    assert {after.at - before.at for before, after in itertools.pairwise(points)} == {60.0}


def test_a_point_adds_up_its_minute_and_shows_how_it_ended():
    points = history(
        sample(10 * 60, succeeded=1, failed=2, ready=9), sample(10 * 60 - BUCKET, succeeded=3, retried=4, ready=7)
    ).points
    [point] = [point for point in points if point.succeeded]
    assert (point.succeeded, point.failed, point.retried, point.depth, point.oldest) == (4, 2, 4, 7, 7.0)


def test_where_nobody_looked_there_is_no_depth():
    assert {point.depth for point in history(sample(BUCKET, started=1)).points} == {None}


def test_a_rate_is_of_the_last_minute_that_everybody_has_written():
    rates = history(
        sample(6 * BUCKET, succeeded=1000),
        sample(5 * BUCKET, succeeded=1, started=2),
        sample(2 * BUCKET, succeeded=10, failed=1, retried=3),
        sample(BUCKET, succeeded=100),
    ).rates
    assert (rates.succeeded, rates.started, rates.failed, rates.retried) == (11, 2, 1, 3)


def test_arrivals_follow_from_what_is_there_and_what_ended():
    rates = history(
        sample(5 * BUCKET, ready=10),
        sample(4 * BUCKET, ready=12, succeeded=3),
        sample(3 * BUCKET, succeeded=5, failed=1),
        sample(2 * BUCKET, ready=12),
    ).rates
    assert rates.enqueued == 5 + 6


def test_jobs_that_were_removed_are_no_negative_arrivals():
    assert history(sample(3 * BUCKET, ready=100), sample(2 * BUCKET, ready=0)).rates.enqueued == 0


def test_a_queue_of_which_nothing_is_known_has_nothing_to_draw():
    assert History().is_empty
    assert not history(sample(BUCKET, started=1)).is_empty
