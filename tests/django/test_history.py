"""The last hour, where operators see it: the overview and `vtasks status`."""

from __future__ import annotations

import asyncio
import io
import json
import re
import time

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.urls import reverse

from django_vtasks.admin.charts import HEIGHT, WIDTH, depth_chart, done_chart
from django_vtasks.jobs.samples import BUCKET, Sample, Standing, bucket_of, span_of
from django_vtasks.operating.history import NO_HISTORY, History, Point

QUEUE = "mails<b>"


def write(store, *, ago=2, **counts):
    """Let a worker have written a sample of so many buckets ago."""
    at = bucket_of(time.time()) - ago * BUCKET
    sample = Sample(at=at, queue=QUEUE, standing=Standing(ready=40, oldest=61.0), **counts)
    asyncio.run(store.record(f"alpha-{ago}", span_of(at), [sample]))


@pytest.fixture
def overview(memory, client, db):
    """Reads the overview as somebody who may see all."""
    client.force_login(User.objects.create_superuser("root"))
    memory.pause(QUEUE)
    return lambda name="changelist": client.get(reverse(f"admin:django_vtasks_overview_{name}")).content.decode()


def test_the_overview_shows_rates_and_draws_the_hour_without_a_script(overview, memory):
    write(memory, started=1500, succeeded=1200, failed=3, retried=2)
    page = overview()
    assert "1,200 done" in page
    assert "3 failed" in page
    assert 'aria-label="Last hour: 1,200 jobs succeeded, 3 failed; at most 1,203 in a minute"' in page
    assert 'aria-label="Last hour: at most 40 jobs ready, the longest wait 1 min 1 s"' in page
    assert page.count('<path class="vt-chart') == 3
    assert "style=" not in page[page.index("<svg class") :]


def test_the_part_that_refreshes_has_them_too(overview, memory):
    write(memory, succeeded=7)
    assert "7 done" in json.loads(overview("live"))["html"]


def test_a_queue_without_samples_has_empty_charts(overview):
    page = overview()
    assert "0 done" in page
    assert '<path class="vt-chart' not in page


def test_status_shows_the_rates(memory):
    write(memory, succeeded=1200, failed=3)
    memory.pause(QUEUE)
    out = io.StringIO()
    call_command("vtasks", "status", stdout=out)
    [heading] = [line for line in out.getvalue().splitlines() if line.startswith("QUEUE")]
    [line] = [line for line in out.getvalue().splitlines() if line.startswith(QUEUE)]
    assert "DONE/MIN  FAILED/MIN" in heading
    assert line[: heading.index("  FAILED/MIN")].endswith("1,200")
    assert line[: heading.index("  WORKERS")].endswith("3")


def test_status_as_json_has_the_rates(memory):
    write(memory, ago=3)
    write(memory, started=5, succeeded=4, failed=1, retried=2)
    memory.pause(QUEUE)
    out = io.StringIO()
    call_command("vtasks", "status", "--json", stdout=out)
    [queue] = [queue for queue in json.loads(out.getvalue())[0]["queues"] if queue["queue"] == QUEUE]
    assert queue["per_minute"] == {"enqueued": 5, "started": 5, "succeeded": 4, "failed": 1, "retried": 2}


# -- drawing ----------------------------------------------------------------------------------------------------------


def numbers(chart, letter):
    return [float(number) for number in re.findall(rf"{letter}(-?[\d.]+)", chart)]


def test_nothing_is_drawn_outside_of_the_chart():
    points = tuple(
        Point(at=60.0 * minute, succeeded=minute * 1000, failed=minute % 3, depth=minute) for minute in range(60)
    )
    for chart in (done_chart(History(points=points)), depth_chart(History(points=points))):
        assert all(0 <= top <= HEIGHT for top in numbers(chart, "V"))
        assert all(0 <= left <= WIDTH for left in numbers(chart, "M"))


def test_one_failed_job_among_thousands_can_be_seen():
    chart = done_chart(History(points=(Point(at=0.0, succeeded=100_000, failed=1),)))
    [path] = re.findall(r'vt-chart-failed" d="([^"]*)"', chart)
    assert numbers(path, "v") == [1.0]
    [_, top] = re.findall(r"M([\d.]+) ([\d.]+)", path)[0]
    assert 0 <= float(top) <= HEIGHT - 1


def test_an_empty_chart_is_a_chart():
    assert "<path" not in done_chart(NO_HISTORY) + depth_chart(NO_HISTORY)
    assert "0 jobs succeeded" in done_chart(NO_HISTORY)
