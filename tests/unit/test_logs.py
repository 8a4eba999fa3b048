"""The log lines of a worker: one for each attempt, with everything a log search needs."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from django.utils.log import AdminEmailHandler, RequireDebugTrue

from django_vtasks import framework, logs
from django_vtasks.events import (
    AttemptEnded,
    Emitter,
    JobRescued,
    LettersEvicted,
    StoreOutage,
    StoreRecovered,
    ThreadAbandoned,
)
from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.jobs.model import Claim, DeadReason, Failure, Job, Lease
from django_vtasks.jobs.outcomes import (
    Abandonment,
    Cancelled,
    Discarded,
    Interrupted,
    LeaseExpired,
    Raised,
    Snoozed,
    Succeeded,
    TimedOut,
    Unrunnable,
)
from django_vtasks.jobs.transitions import Policy, decide

FAILURE = Failure(
    exception_class="builtins.ValueError", message="no\nsecond line", traceback="Traceback ...\nValueError: no\n"
)
CLAIM = Claim(
    lease=Lease(job_id="id-1", token="t", owner="worker-1"),
    raw=b"",
    queue="mail",
    started_at=1.0,
    job=Job(id="id-1", func="app.send", queue="mail", starts=1),
)


@pytest.fixture
def emitter():
    made = Emitter()
    for kind, handler in logs.LogLines().subscriptions().items():
        made.subscribe(kind, handler)
    return made


@pytest.fixture
def lines(emitter, caplog):
    """Emit events; returns the records they made."""

    def emit(*happened):
        caplog.clear()
        with caplog.at_level(logging.DEBUG):
            for event in happened:
                emitter.emit(event)
        return list(caplog.records)

    return emit


def ended(outcome, *, claim=CLAIM, max_attempts=1):
    decision = decide(claim, outcome, Policy(max_attempts=max_attempts), 3.5)
    return AttemptEnded(claim=claim, worker_id="worker-1", outcome=outcome, decision=decision, duration=2.5)


def test_an_attempt_is_one_line_with_everything_beside_it(lines):
    (record,) = lines(ended(Succeeded()))
    assert record.levelno == logging.INFO
    assert record.getMessage() == "app.send (id-1, 2.500 s) succeeded"
    assert (record.event, record.job_id, record.task) == ("Succeeded", "id-1", "app.send")
    assert (record.queue, record.worker_id, record.attempt) == ("mail", "worker-1", 2)
    assert record.duration == 2.5


@pytest.mark.parametrize(
    ("outcome", "level", "text"),
    [
        (Snoozed(delay=4.0), logging.INFO, "snoozes for 4 s"),
        (Discarded(failure=FAILURE), logging.INFO, "was discarded: no"),
        (Interrupted(), logging.WARNING, "was interrupted and goes back"),
        (Interrupted(reason="its job is gone"), logging.WARNING, "was interrupted because its job is gone"),
        (Raised(failure=FAILURE, delay=7.0), logging.WARNING, "failed, next attempt in 7.0 s: ValueError: no"),
        (TimedOut(failure=FAILURE, how=Abandonment.ABANDONED, delay=7.0), logging.WARNING, "and its code runs on"),
    ],
)
def test_what_is_not_final_says_what_comes_next(lines, outcome, level, text):
    (record,) = lines(ended(outcome, max_attempts=5))
    assert record.levelno == level
    assert text in record.getMessage()
    assert "second line" not in record.getMessage()
    assert "Traceback" not in record.getMessage()


@pytest.mark.parametrize("outcome", [Raised(failure=FAILURE), TimedOut(failure=FAILURE)])
def test_a_final_failure_that_the_framework_logs_is_not_an_alarm_twice(lines, outcome):
    (record,) = lines(ended(outcome))
    assert record.levelno == logging.WARNING
    assert "failed: ValueError: no" in record.getMessage()
    assert "Traceback" not in record.getMessage()
    assert record.traceback == FAILURE.traceback


def test_a_job_that_was_cancelled_is_no_alarm(lines, monkeypatch):
    monkeypatch.setattr(framework.task_finished, "receivers", [])
    (record,) = lines(ended(Cancelled(failure=FAILURE)))
    assert record.levelno == logging.INFO
    assert record.getMessage().endswith("was cancelled")


def test_a_cancelled_job_whose_code_runs_on_is_a_warning(lines):
    (record,) = lines(ended(Cancelled(failure=FAILURE, how=Abandonment.ABANDONED)))
    assert record.levelno == logging.WARNING
    assert "its code runs on" in record.getMessage()


def test_a_final_failure_that_the_framework_does_not_log_is_an_error_with_its_traceback(lines, monkeypatch):
    monkeypatch.setattr(framework.task_finished, "receivers", [])
    (record,) = lines(ended(Raised(failure=FAILURE)))
    assert record.levelno == logging.ERROR
    assert record.getMessage().endswith("ValueError: no\n")


@pytest.fixture
def framework_handlers(monkeypatch, settings):
    """Give the framework's logger these handlers and no others, with DEBUG off."""
    settings.DEBUG = False

    def use(*handlers):
        monkeypatch.setattr(framework.logger, "handlers", list(handlers))
        monkeypatch.setattr(framework.logger, "propagate", False)

    return use


def test_a_traceback_that_no_handler_writes_is_in_the_line_without_a_second_alarm(lines, framework_handlers):
    """Shown to catch: a worker with Django's own logging and DEBUG off, whose log never says where a task failed."""
    console = logging.StreamHandler()
    console.addFilter(RequireDebugTrue())
    framework_handlers(console, AdminEmailHandler())
    (record,) = lines(ended(Raised(failure=FAILURE)))
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith("ValueError: no\n")


@pytest.mark.parametrize(
    ("level", "written"), [(logging.NOTSET, True), (logging.ERROR, True), (logging.CRITICAL, False)]
)
def test_a_handler_writes_errors_when_its_level_lets_them_through(framework_handlers, level, written):
    framework_handlers(AdminEmailHandler(), logging.StreamHandler())
    framework.logger.handlers[1].setLevel(level)
    assert framework.is_error_written() is written


def test_without_handlers_the_last_resort_writes_errors(framework_handlers):
    framework_handlers()
    assert framework.is_error_written()


def test_bytes_that_are_no_job_are_an_error(lines):
    claim = Claim(lease=CLAIM.lease, raw=b"?", queue="mail", started_at=1.0, job=None, defect="not JSON")
    failure = Failure(exception_class="x.JobUndecodable", message="not JSON")
    (record,) = lines(ended(Unrunnable(reason=DeadReason.UNDECODABLE, failure=failure), claim=claim))
    assert record.levelno == logging.ERROR
    assert "undecodable bytes (id-1" in record.getMessage()
    assert "not JSON" in record.getMessage()


def test_an_outage_is_one_traceback_then_a_line_for_each_pause_and_one_when_it_is_over(lines):
    outage = [
        StoreOutage(service=service, error=StoreUnavailable("away"), attempt=attempt, pause=1.0)
        for attempt in (1, 2)
        for service in ("consumer", "promoter")
    ]
    over = [StoreRecovered(service=service, seconds=3.0) for service in ("consumer", "promoter")]
    records = lines(*outage, *over)
    assert sum(record.exc_info is not None for record in records) == 1
    told = [record.levelno for record in records if record.levelno > logging.DEBUG]
    assert told == [logging.ERROR, logging.WARNING, logging.WARNING]


def test_what_breaks_right_after_an_outage_is_told_without_another_traceback(lines, monkeypatch):
    def outage(service):
        broken = StoreOutage(service=service, error=StoreUnavailable("away"), attempt=1, pause=1.0)
        records = lines(broken, StoreRecovered(service=service, seconds=3.0))
        assert records[-1].getMessage().startswith("The store can be used again")
        return records[0]

    now = 1000.0
    monkeypatch.setattr(logs.time, "monotonic", lambda: now)
    assert outage("consumer").exc_info
    late = outage("wait")
    assert (late.levelno, late.exc_info) == (logging.WARNING, None)
    now += logs.AFTERSHOCK
    assert outage("consumer").exc_info


def test_evictions_and_abandoned_threads_are_told_with_their_number(lines):
    evicted, abandoned = lines(LettersEvicted(count=12), ThreadAbandoned(claim=CLAIM, total=3))
    assert "12 dead letters" in evicted.getMessage()
    assert "app.send" in abandoned.getMessage()
    assert "3 such threads" in abandoned.getMessage()
    assert abandoned.job_id == "id-1"


@pytest.mark.parametrize(
    ("max_rescues", "level", "text"), [(0, logging.ERROR, "dead letter"), (1, logging.WARNING, "ready again")]
)
def test_a_rescue_says_whether_the_job_goes_on(lines, max_rescues, level, text):
    claim = replace(CLAIM, job=replace(CLAIM.job, max_rescues=max_rescues))
    decision = decide(claim, LeaseExpired(owner="worker-1"), Policy(), 9.0)
    (record,) = lines(JobRescued(claim=claim, decision=decision))
    assert record.levelno == level
    assert text in record.getMessage()
    assert "worker-1" in record.getMessage()


def test_installing_twice_subscribes_once(monkeypatch):
    monkeypatch.setattr(logs, "_installed", [])
    emitter = Emitter()
    monkeypatch.setattr(logs.happened, "events", emitter)
    logs.install()
    logs.install()
    assert len(emitter._handlers[AttemptEnded]) == 1


def test_a_name_that_a_producer_made_up_forges_no_line(lines):
    evil = "x\n2026-01-01 ERROR \x1b[2Jforged"
    claim = replace(CLAIM, lease=replace(CLAIM.lease, job_id=evil), job=replace(CLAIM.job, func=evil))
    rescue = JobRescued(claim=claim, decision=decide(claim, LeaseExpired(owner="worker-1"), Policy(), 9.0))
    records = lines(ended(Succeeded(value=b"1"), claim=claim), ThreadAbandoned(claim=claim, total=1), rescue)
    assert [record.getMessage() for record in records if not record.getMessage().isprintable()] == []
