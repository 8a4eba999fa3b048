"""Sentry, with its real SDK as a project sets it up: one event for each job that failed for good, and no other."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.django.conftest import MEMORY, entry
from tests.support.processes import ROOT, process_environment

pytest.importorskip("sentry_sdk")


def events_of(*tasks):
    """What reaches Sentry when a worker runs a job of each task."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.sentry_process", *tasks],
        env=process_environment(
            VTASKS_TEST_SETTINGS=json.dumps({"TASKS": entry(MEMORY)}), PYTHONPATH=f"{ROOT}:{ROOT / 'src'}"
        ),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(
    ("task", "words"), [("fail", "in a thread"), ("afail", "on the loop"), ("fail_at_last", "again")]
)
def test_a_job_that_failed_for_good_is_one_event_with_exception_task_and_id(task, words):
    [event] = events_of(task)
    [*_, exception] = event["exception"]["values"]
    assert (exception["type"], exception["value"]) == ("Boom", words)
    assert exception["stacktrace"]["frames"][-1]["function"] == task
    assert event["level"] == "error"
    said = event["logentry"]["message"] % tuple(event["logentry"]["params"])
    assert f"path=tests.support.sentry_tasks.{task}" in said
    assert "Task id=" in said


def test_nothing_else_is_an_event():
    assert events_of("recover", "retry", "discard", "snooze", "succeed", "endless") == []


@pytest.mark.parametrize("task", ["pay", "apay"])
def test_no_event_has_what_is_hidden_of_the_arguments(task):
    [event] = events_of(task)
    [*_, exception] = event["exception"]["values"]
    assert exception["value"] == "cannot move 10 to [redacted]"
    assert exception["stacktrace"]["frames"][-1]["function"] == task
    told = json.dumps(event)
    assert "DE0212030000000020" not in told
    assert "correct horse" not in told
