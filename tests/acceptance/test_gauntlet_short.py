"""The first scenarios of the gauntlet in their short form, one seed each; `make gauntlet` runs all of it."""

from __future__ import annotations

import pytest

from gauntlet.runs import Templates, run
from tests.support.servers import ServerUnavailable, unavailable

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(420)]

STORES = [pytest.param("valkey", marks=pytest.mark.valkey), pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(scope="module")
def templates():
    with Templates() as made:
        yield made


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("scenario", ["kill", "freeze", "block", "twins", "gone"])
def test_nothing_is_lost_or_done_twice_when(scenario, store, templates, tmp_path):
    try:
        template = templates.of(store)
    except ServerUnavailable as problem:
        unavailable(str(problem))
    report = run(scenario, store, seed=1, short=True, template=template, keep=tmp_path)
    if report.verdict == "unavailable":
        unavailable(report.problems[0])
    assert report.passed, report
