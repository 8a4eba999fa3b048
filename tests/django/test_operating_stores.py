"""What operators see and do, on every store: the reasons why a job is not running, and operations on many jobs."""

from __future__ import annotations

import io
import json
import time

import pytest
from django.core.management import CommandError, call_command

from django_vtasks.jobs.limits import JobLimit
from django_vtasks.jobs.model import JobState
from django_vtasks.jobs.outcomes import Discarded, Raised
from django_vtasks.operating.aliases import alias_named
from django_vtasks.operating.facts import why
from django_vtasks.operating.overview import overview_of
from django_vtasks.stores.base import JobFilter
from tests.support.builders import a_failure, a_key
from tests.support.operators import FUNC, OWNER


def reasons(job_id):
    return [reason.code for reason in why(alias_named("default"), job_id)]


def ids(scene, state, **which):
    return {
        record.job.id for record in scene.admin.page(JobFilter(state=JobState(state), **which), limit=1000).records
    }


def paused(scene):
    scene.announce()
    scene.admin.pause("default")
    return scene.ready()[0]


def without_worker(scene):
    return scene.ready()[0]


def served_by_nobody(scene):
    scene.announce(queues=("other",))
    return scene.ready()[0]


def all_slots_busy(scene):
    scene.announce(running=4, concurrency=4)
    return scene.ready()[0]


def not_due(scene):
    scene.announce()
    return scene.delayed()[0]


def between_attempts(scene):
    scene.announce()
    (job_id,) = scene.running()
    scene.end(job_id, Raised(failure=a_failure(), delay=600.0), max_attempts=3)
    return job_id


def behind_others(scene):
    scene.announce()
    scene.ready(3, priority=50)
    scene.ready(2)
    return scene.ready()[0]


def expired(scene):
    scene.announce()
    return scene.ready(expires_at=time.time() - 60)[0]


def unknown_task(scene):
    scene.announce()
    return scene.ready(func="nowhere.tasks.gone")[0]


def next_in_line(scene):
    scene.announce()
    return scene.ready()[0]


def limit_is_full(scene):
    scene.announce()
    limit = JobLimit(concurrency_key="account:7", count=1)
    scene.running(limit=limit)
    return scene.ready(limit=limit)[0]


def rate_is_used_up(scene):
    scene.announce()
    limit = JobLimit(rate_key="mails", interval=3600.0)
    scene.running(limit=limit)
    return scene.ready(limit=limit)[0]


def running(scene):
    scene.announce()
    return scene.running()[0]


def running_with_progress_and_cancelled(scene):
    scene.announce()
    (job_id,) = scene.running(progress=(1, 4))
    scene.client.cancel(job_id)
    return job_id


def lease_released(scene):
    (job_id,) = scene.running()
    scene.release()
    return job_id


def dead(scene):
    return scene.dead()[0]


def dead_and_its_key_taken(scene):
    (job_id,) = scene.dead(unique=a_key("k"))
    scene.ready(unique=a_key("k"))
    return job_id


def cancelled(scene):
    (job_id,) = scene.ready()
    scene.client.cancel(job_id)
    return job_id


def succeeded(scene):
    return scene.succeeded()[0]


def discarded(scene):
    (job_id,) = scene.running()
    scene.end(job_id, Discarded(failure=a_failure("not needed")))
    return job_id


def never_heard_of(scene):
    return scene.client.new_id()


SITUATIONS = [
    (paused, ["paused"]),
    (without_worker, ["no_worker"]),
    (served_by_nobody, ["no_worker"]),
    (all_slots_busy, ["busy"]),
    (not_due, ["not_due"]),
    (between_attempts, ["not_due"]),
    (behind_others, ["behind"]),
    (expired, ["expired", "next"]),
    (unknown_task, ["unknown_task", "next"]),
    (next_in_line, ["next"]),
    (limit_is_full, ["limit_full"]),
    (rate_is_used_up, ["rate_limited"]),
    (running, ["running"]),
    (running_with_progress_and_cancelled, ["running", "cancelling", "progress"]),
    (lease_released, ["lease_expired"]),
    (dead, ["dead"]),
    (dead_and_its_key_taken, ["dead", "key_held"]),
    (cancelled, ["dead"]),
    (succeeded, ["succeeded"]),
    (discarded, ["discarded"]),
    (never_heard_of, ["unknown"]),
]


@pytest.mark.parametrize(("construct", "codes"), SITUATIONS, ids=[construct.__name__ for construct, _ in SITUATIONS])
def test_the_reason_why_a_job_is_not_running(scene, construct, codes):
    job_id = construct(scene)
    assert reasons(job_id) == codes


NAMED = [
    (paused, ["The queue 'default' is paused"]),
    (served_by_nobody, ["No live worker serves the queue 'default'"]),
    (all_slots_busy, ["All 4 slots of 1 worker"]),
    (not_due, ["It waits for its time: due in "]),
    (between_attempts, ["next attempt after attempt 1 failed with ValueError"]),
    (limit_is_full, ["Its limit 'account:7' is full: 1 of 1 run, held by {leased}"]),
    (rate_is_used_up, ["Its rate 'mails' lets the next job start in "]),
    (behind_others, ["behind 5 jobs of the queue 'default', 3 of them of higher priority than its 0"]),
    (dead_and_its_key_taken, ["its unique key is held by {ready}"]),
    (unknown_task, ["Its task does not exist in this code", "nowhere"]),
    (dead, ["It became a dead letter", "failed after 1 attempt with ValueError"]),
    (running, ["It is running on worker worker-1 (host host-1, pid 4711) since 20", "(attempt 1)"]),
]


@pytest.mark.parametrize(("construct", "words"), NAMED, ids=[construct.__name__ for construct, _ in NAMED])
def test_twelve_situations_are_told_with_who_and_how_many(scene, construct, words):
    job_id = construct(scene)
    told = " ".join(reason.text for reason in why(alias_named("default"), job_id))
    others = {state: next(iter(ids(scene, state) - {job_id}), "") for state in ("leased", "ready")}
    assert [word for word in words if word.format(**others) not in told] == [], told


def test_the_overview_of_a_busy_alias(scene):
    scene.announce(queues=("default", "mails"), running=2)
    scene.running(2)
    scene.ready(3, queue="mails")
    scene.delayed(2, queue="mails")
    scene.dead(4)
    scene.ready(queue="imports")
    scene.admin.pause("imports")
    seen = overview_of(alias_named("default"))
    assert seen.problem is None
    counts = {queue.counts.queue: queue.counts for queue in seen.queues}
    assert (counts["default"].leased, counts["default"].dead) == (2, 4)
    assert (counts["mails"].ready, counts["mails"].scheduled) == (3, 2)
    assert counts["imports"].paused
    (worker,) = seen.workers
    assert (worker.info.worker_id, worker.info.concurrency, len(worker.running)) == ("worker-1", 4, 2)
    assert [finding.severity for finding in seen.findings] == ["warning", "info"]


def vtasks(*arguments):
    out = io.StringIO()
    call_command("vtasks", *arguments, stdout=out)
    return out.getvalue()


def test_a_group_of_letters_is_retried_at_a_rate_and_the_others_stay(scene):
    scene.dead(30, outcome=Raised(failure=a_failure(fingerprint="f1")))
    others = set(scene.dead(3, outcome=Raised(failure=a_failure(fingerprint="f2"))))
    groups = json.loads(vtasks("dlq", "list", "--groups", "--json"))
    assert [(group["fingerprint"], group["count"], group["task"]) for group in groups] == [
        ("f1", 30, FUNC),
        ("f2", 3, FUNC),
    ]
    vtasks("dlq", "retry", "--fingerprint", "f1", "--rate", "0.5", "--force")
    assert ids(scene, "dead") == others
    records = scene.admin.page(JobFilter(state=JobState.SCHEDULED), limit=100).records
    due = [record.job.run_after for record in records]
    assert len(due) == 29
    assert due[-1] - due[0] == pytest.approx(28 / 0.5, abs=8)


def test_letters_survive_an_export_and_an_import(scene, tmp_path):
    made = set(scene.dead(3, func="of.other.code", kwargs={"password": "hunter2"}))
    file = str(tmp_path / "letters.jsonl")
    vtasks("dlq", "export", file)
    vtasks("dlq", "discard", "--all", "--force")
    assert ids(scene, "dead") == set()
    vtasks("dlq", "import", file)
    assert ids(scene, "dead") == made
    one = min(made)
    vtasks("dlq", "edit", one, "--args", "[7]")
    (record,) = scene.admin.page(JobFilter(state=JobState.READY)).records
    assert (record.job.args, record.job.kwargs, record.job.retry_of) == ([7], {"password": "hunter2"}, one)


def test_clear_queue_is_the_same_everywhere(scene):
    scene.ready(3, unique=None)
    scene.delayed(2)
    (mutex,) = scene.ready(unique=a_key("mutex"))
    others = set(scene.ready(queue="mails"))
    letters, held = set(scene.dead()), set(scene.running())
    out = io.StringIO()
    call_command("clear_queue", "--force", stdout=out)
    assert out.getvalue() == "Removed 6 waiting jobs of the queue 'default' of 'default'.\n"
    assert ids(scene, "ready") == others
    assert ids(scene, "scheduled") == set()
    assert (ids(scene, "dead"), ids(scene, "leased")) == (letters, held)
    assert scene.ready(unique=a_key("mutex")) != [mutex]
    assert len(ids(scene, "ready")) == 2
    call_command("clear_queue", "--all-queues", "--force", stdout=out)
    assert (ids(scene, "ready"), ids(scene, "dead")) == (set(), letters)
    call_command("clear_queue", "--failed", "--force", stdout=out)
    assert (ids(scene, "dead"), ids(scene, "leased")) == (set(), held)


def test_purge_and_bench_leave_nothing_behind(scene):
    scene.succeeded(3)
    assert vtasks("purge", "--results", "0") == "default: removed 3 results\n"
    vtasks("purge")
    measured = json.loads(vtasks("bench", "--count", "40", "--batch", "20", "--json"))
    assert measured["claim_and_settle_per_second"] > 0
    assert sum(count.ready + count.scheduled + count.leased + count.dead for count in scene.admin.counts()) == 0


def test_jobs_are_listed_page_by_page_in_every_state(scene):
    made = {
        "leased": set(scene.running(5)),
        "dead": set(scene.dead(5)),
        "succeeded": set(scene.succeeded(5)),
        "ready": set(scene.ready(5)),
        "scheduled": set(scene.delayed(5)),
    }
    for state, expected in made.items():
        met, after = [], ()
        for _ in range(3):
            page = json.loads(vtasks("jobs", "--state", state, "--limit", "2", "--json", *after))
            met += [job["id"] for job in page["jobs"]]
            after = ("--after", page["next"]) if page["next"] else None
            if after is None:
                break
        assert (len(met), set(met)) == (5, expected), state


def test_a_place_in_a_list_that_is_nonsense_is_refused_or_means_the_first_page(scene):
    (job_id,) = scene.ready()
    try:
        shown = vtasks("jobs", "--after", "nonsense")
    except CommandError as error:
        shown = f"{job_id} {error}" if error.returncode == 2 else ""
    assert job_id in shown


def test_a_worker_that_stopped_is_not_listed(scene):
    scene.announce()
    scene.release(OWNER)
    assert json.loads(vtasks("workers", "--json")) == []


def test_a_rollback_leaves_every_job_where_it_can_be_run(scene):
    low, normal, high = scene.ready(priority=-5)[0], scene.ready()[0], scene.ready(priority=5)[0]
    moved = json.loads(vtasks("rollback", "--json"))["moved"]
    assert moved in {0, 2}
    assert ids(scene, "ready") == {low, normal, high}
    assert json.loads(vtasks("rollback", "--json"))["moved"] == 0
