"""The first scenarios of the gauntlet in their short form, one seed each; `make gauntlet` runs all of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from gauntlet.runs import Templates, run
from tests.support.servers import ServerUnavailable, unavailable

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(420)]

STORES = {"valkey": pytest.mark.valkey, "postgres": pytest.mark.postgres}


@pytest.fixture(scope="module")
def templates():
    with Templates() as made:
        yield made


def judged(report):
    if report.verdict == "unavailable":
        unavailable(report.problems[0])
    assert report.passed, report


def template_of(store, templates):
    try:
        return templates.of(store)
    except ServerUnavailable as problem:
        unavailable(str(problem))


@pytest.mark.parametrize("store", [pytest.param(store, marks=mark) for store, mark in STORES.items()])
@pytest.mark.parametrize("scenario", ["kill", "freeze", "block", "twins", "gone"])
def test_nothing_is_lost_or_done_twice_when(scenario, store, templates, tmp_path):
    template = template_of(store, templates)
    judged(run(scenario, store, seed=1, short=True, template=template, keep=tmp_path))


@pytest.mark.valkey
@pytest.mark.postgres
@pytest.mark.parametrize("scenario", ["schedule"])
def test_what_is_promised_holds_in_spite_of_kills_and_freezes_on_each_store_of(scenario, templates, tmp_path):
    """They wait more than they work, so both stores are tried at once."""
    made = {store: template_of(store, templates) for store in STORES}
    with ThreadPoolExecutor(len(made)) as pool:
        reports = pool.map(
            lambda store: run(scenario, store, seed=1, short=True, template=made[store], keep=tmp_path), made
        )
        for report in list(reports):
            judged(report)


@pytest.mark.valkey
def test_jobs_that_kill_their_worker_end_as_dead_letters(templates, tmp_path):
    judged(run("poison", "valkey", seed=1, short=True, template=template_of("valkey", templates), keep=tmp_path))


@pytest.mark.valkey
@pytest.mark.parametrize("scenario", ["hang", "replies"])
def test_workers_get_over_a_store_that_does_not_answer(scenario, templates, tmp_path):
    judged(run(scenario, "valkey", seed=1, short=True, template=template_of("valkey", templates), keep=tmp_path))


@pytest.mark.postgres
def test_workers_get_over_a_database_that_was_away(templates, tmp_path):
    judged(run("restart", "postgres", seed=1, short=True, template=template_of("postgres", templates), keep=tmp_path))
