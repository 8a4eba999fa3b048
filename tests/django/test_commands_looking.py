"""`vtasks status`, `workers`, `jobs`, `explain`, `watch`, `schedule`, `bench`: what they print and how they exit."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from django_vtasks.framework import task_backends
from django_vtasks.jobs.outcomes import Succeeded
from django_vtasks.management.operations.base import Console
from django_vtasks.management.operations.looking import Status
from django_vtasks.management.operations.watching import Watch
from tests.support.operators import AwayBackend, Scene
from tests.support.processes import process_environment

AWAY = f"{AwayBackend.__module__}.{AwayBackend.__qualname__}"


@pytest.fixture
def scene(memory):
    return Scene(memory)


def vtasks(*arguments):
    """What a subcommand prints."""
    out = io.StringIO()
    call_command("vtasks", *arguments, stdout=out)
    return out.getvalue()


def refusal(*arguments):
    """Exit code and message of a subcommand that fails."""
    with pytest.raises(CommandError) as caught:
        vtasks(*arguments)
    return caught.value.returncode, str(caught.value)


def test_an_empty_list_says_so(scene):
    scene.delayed()
    assert vtasks("jobs").splitlines()[-1].startswith("No such job is ready in default; --state has scheduled,")
    assert "No such job" not in vtasks("jobs", "--state", "scheduled")
    assert vtasks("workers").splitlines()[-1] == "No worker is running: manage.py runworker"
    scene.announce(queues=("default",))
    assert "No worker" not in vtasks("workers")


def test_status_shows_every_queue_in_an_aligned_table(scene):
    scene.ready(3, queue="mails")
    scene.delayed(2, queue="mails")
    scene.dead(queue="mails")
    scene.running(2)
    scene.announce(queues=("default",), running=2)
    scene.admin.pause("mails")
    lines = vtasks("status").splitlines()
    heading = next(line for line in lines if line.startswith("QUEUE"))
    mails = next(line for line in lines if line.startswith("mails"))
    default = next(line for line in lines if line.startswith("default"))
    assert mails.split()[:5] == ["mails", "3", "2", "0", "1"]
    assert mails.endswith("paused")
    assert default.split()[:5] == ["default", "0", "0", "2", "0"]
    assert default.endswith("2/4    served")
    assert heading.index("STATE") == mails.index("paused")
    assert "warning: The queue 'mails' is paused; 3 ready jobs wait." in lines


def test_status_as_json_is_for_programs(scene):
    scene.ready(3)
    (report,) = json.loads(vtasks("status", "--json"))
    assert report["alias"] == "default"
    (queue,) = report["queues"]
    assert (queue["queue"], queue["ready"], queue["workers"], queue["paused"]) == ("default", 3, 0, False)
    assert queue["oldest_ready_seconds"] >= 0
    assert report["findings"][0]["severity"] == "error"


def test_status_check_exits_with_one_when_nobody_serves_a_queue(scene):
    assert vtasks("status", "--check")
    scene.ready()
    code, message = refusal("status", "--check")
    assert (code, message) == (1, "No worker is running: 1 job waits in 'default'.")


def test_status_shows_the_other_aliases_when_one_store_is_away(settings, scene):
    settings.TASKS = {**settings.TASKS, "away": {"BACKEND": AWAY}}
    out = io.StringIO()
    with pytest.raises(CommandError) as caught:
        call_command("vtasks", "status", stdout=out)
    assert caught.value.returncode == 4
    assert "== default" in out.getvalue()
    assert "error: the store cannot be reached: no answer within 5 s" in out.getvalue()


def test_status_watch_redraws_until_interrupted(scene):
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    out = io.StringIO()
    Status(sleep).run(Console(out), {"alias": None, "watch": True, "interval": 2.0, "check": False})
    assert pauses == [2.0, 2.0, 2.0]
    assert out.getvalue().count("== default") == 3


def test_workers_lists_the_live_ones(scene):
    scene.announce(queues=("default", "mails"), running=3)
    line = vtasks("workers").splitlines()[1]
    assert line.split()[:7] == ["default", "worker-1", "host-1", "4711", "4.0", "default,mails", "3/4"]
    (report,) = json.loads(vtasks("workers", "--json"))
    assert (report["alias"], report["worker"], report["slots"]) == ("default", "worker-1", 4)


def test_jobs_come_a_page_at_a_time(scene):
    ids = scene.ready(5)
    first = json.loads(vtasks("jobs", "--limit", "3", "--json"))
    assert [job["id"] for job in first["jobs"]] == ids[:3]
    second = json.loads(vtasks("jobs", "--limit", "3", "--json", "--after", first["next"]))
    assert [job["id"] for job in second["jobs"]] == ids[3:]
    assert second["next"] is None
    assert "more: --after" in vtasks("jobs", "--limit", "3")


def test_jobs_are_filtered(scene):
    (wanted,) = scene.delayed(queue="mails", args=["anna@example.com"])
    scene.delayed(queue="mails")
    scene.delayed(args=["anna@example.com"])
    found = json.loads(vtasks("jobs", "--state", "scheduled", "--queue", "mails", "--text", "anna", "--json"))
    assert [job["id"] for job in found["jobs"]] == [wanted]


def test_secrets_are_not_printed(scene):
    (job_id,) = scene.dead(kwargs={"password": "hunter2", "user": "anna"})
    for arguments in (("jobs", "--state", "dead", "--json"), ("explain", job_id, "--json"), ("dlq", "show", job_id)):
        text = vtasks(*arguments)
        assert "hunter2" not in text
        assert "[redacted]" in text
        assert "anna" in text
    assert "hunter2" in vtasks("dlq", "show", job_id, "--reveal")


def test_explain_tells_the_decisive_reason_first(scene):
    (job_id,) = scene.ready(queue="mails")
    scene.admin.pause("mails")
    lines = vtasks("explain", job_id).splitlines()
    assert lines[0] == f"{job_id} of default: tests.project.tasks.echo, ready"
    assert lines[1].startswith("- The queue 'mails' is paused.")
    assert lines[2].startswith("- No worker is running.")
    report = json.loads(vtasks("explain", job_id, "--json"))
    assert [reason["code"] for reason in report["reasons"]] == ["paused", "no_worker"]


def test_explain_finds_the_job_in_whichever_alias_has_it(settings, scene):
    settings.TASKS = {"away": {"BACKEND": AWAY}, **settings.TASKS}
    scene = Scene(task_backends["default"].client_store)
    (job_id,) = scene.ready()
    assert f"{job_id} of default" in vtasks("explain", job_id)


@pytest.mark.parametrize(
    "arguments",
    [("explain", "nope"), ("watch", "nope"), ("dlq", "show", "nope"), ("dlq", "edit", "nope", "--args=[]")],
)
def test_an_unknown_id_is_exit_code_three(scene, arguments):
    code, message = refusal(*arguments)
    assert code == 3
    assert "'nope'" in message


@pytest.mark.parametrize("arguments", [("status",), ("jobs",), ("pause", "default"), ("dlq", "list"), ("purge",)])
def test_an_unknown_alias_is_exit_code_two_and_names_the_choices(scene, arguments):
    code, message = refusal(*arguments, "--alias", "nope")
    assert (code, message) == (2, "TASKS has no alias 'nope' with a store; choose one of: default")


@pytest.mark.parametrize(
    "arguments", [("jobs",), ("pause", "default", "--force"), ("dlq", "list"), ("explain", "x"), ("cancel", "x")]
)
def test_a_store_that_is_away_is_exit_code_four(settings, arguments):
    settings.TASKS = {"default": {"BACKEND": AWAY}}
    code, message = refusal(*arguments)
    assert (code, message) == (4, "The store did not do it: no answer within 5 s")


def watch(job_id, between=lambda: None):
    """What `watch` prints; `between` is called instead of each pause."""
    out = io.StringIO()
    options = {"alias": None, "id": job_id, "timeout": None, "interval": 0.5}
    Watch(lambda _seconds: between()).run(Console(out), options)
    return out.getvalue()


def test_watch_draws_the_progress_until_the_job_ends(scene):
    (job_id,) = scene.running(progress=(25, 100))
    looks = []

    def ends_at_the_second_look():
        looks.append(job_id)
        if len(looks) == 2:
            scene.end(job_id, Succeeded(value=b"7"))

    lines = watch(job_id, ends_at_the_second_look).splitlines()
    assert lines == [
        "leased [########......................]  25% 25/100 working",
        "succeeded",
    ]
    assert looks == [job_id, job_id]


def test_watch_exits_with_one_when_the_job_failed(scene):
    (job_id,) = scene.dead()
    with pytest.raises(CommandError, match=r"It ended as dead\. boom") as caught:
        watch(job_id)
    assert caught.value.returncode == 1


def test_watch_gives_up_after_its_timeout(scene):
    (job_id,) = scene.ready()
    code, message = refusal("watch", job_id, "--timeout", "0")
    assert code == 1
    assert message.startswith("Still ready")


def test_the_old_names_are_the_same_commands(scene):
    (job_id,) = scene.dead()
    out = io.StringIO()
    call_command("vtasks_dlq", "list", stdout=out)
    assert job_id in out.getvalue()
    with pytest.raises(CommandError, match="It ended as dead"):
        call_command("vtasks_watch", job_id, stdout=io.StringIO())


@pytest.mark.django_db
def test_schedule_is_vtasks_schedule(settings, scene):
    settings.VTASKS_SCHEDULE = {"beat": {"task": "tests.project.tasks.echo", "schedule": 60}}
    (entry,) = json.loads(vtasks("schedule", "--json"))
    assert (entry["name"], entry["standing"]) == ("beat", "new")
    assert "every 60 s" in vtasks("schedule", "beat")


def test_bench_measures_and_leaves_nothing_behind(scene):
    scene.ready()
    report = json.loads(vtasks("bench", "--count", "60", "--batch", "25", "--json"))
    assert (report["count"], report["batch"]) == (60, 25)
    assert report["claim_and_settle_per_second"] > 0
    assert [count.queue for count in scene.admin.counts()] == ["default"]


def test_bench_refuses_nonsense(scene):
    assert refusal("bench", "--count", "0")[0] == 2


PRINTING = """
from django_vtasks.management.operations.base import explained
with explained():
    for _ in range(10_000):
        print("x" * 100)
"""


def test_a_reader_that_hangs_up_is_no_error():
    environment = process_environment(PYTHONPATH="src")
    command = [sys.executable, "-c", PRINTING]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("status", "--watch", "--interval", "-1"), "argument --interval: a finite number of seconds, at least 0.1"),
        (("status", "--watch", "--interval", "nan"), "argument --interval: a finite number of seconds, at least 0.1"),
        (("watch", "an-id", "--interval", "0"), "argument --interval: a finite number of seconds, at least 0.05"),
        (("watch", "an-id", "--timeout", "-1"), "argument --timeout: a finite number of seconds, 0 or more"),
        (("jobs", "--limit", "0"), "argument --limit: a number at least 1"),
        (("dlq", "list", "--limit", "-3"), "argument --limit: a number at least 1"),
        (("jobs", "--after", "garbage"), "start from its first page"),
        (("dlq", "list", "--after", "garbage"), "start from its first page"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_not_replaced(scene, arguments, named):
    with pytest.raises(CommandError, match=named):
        vtasks(*arguments)


def test_a_place_that_no_page_told_is_wrong_usage(scene):
    code, message = refusal("jobs", "--after", "garbage")
    assert (code, message) == (2, "'garbage' is no place in this list; start from its first page.")
