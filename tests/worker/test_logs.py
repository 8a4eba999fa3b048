"""The log lines: one for each attempt, one speaker for an outage, nothing that floods."""

from __future__ import annotations

import logging

import pytest

from django_vtasks import events as happened
from django_vtasks import logs, metrics
from django_vtasks.events import Emitter
from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.jobs.model import Claim, Failure, Job, Lease
from django_vtasks.jobs.outcomes import Cancelled, Discarded, Interrupted, LeaseExpired, Raised, Snoozed, Succeeded
from django_vtasks.jobs.transitions import Policy, decide
from django_vtasks.logs import LogLines

CLAIM = Claim(
    lease=Lease(job_id="the-id", token="t", owner="w:1"),
    raw=b"",
    queue="mail",
    started_at=0.0,
    job=Job(id="the-id", func="app.tasks.send", queue="mail"),
)
FAILURE = Failure(exception_class="builtins.ValueError", message="no such user\nmore", traceback="Traceback ...")


@pytest.fixture
def emitter(caplog):
    caplog.set_level(logging.DEBUG, "django_vtasks")
    emitter = Emitter()
    for kind, handler in LogLines().subscriptions().items():
        emitter.subscribe(kind, handler)
    return emitter


def ended(outcome, **policy):
    decision = decide(CLAIM, outcome, Policy(**policy), 1.0)
    return happened.AttemptEnded(claim=CLAIM, worker_id="w:1", outcome=outcome, decision=decision, duration=0.25)


@pytest.mark.parametrize(
    ("outcome", "policy", "level", "text"),
    [
        (Succeeded(), {}, "INFO", "app.tasks.send (the-id, 0.250 s) succeeded"),
        (Succeeded(despite=FAILURE), {}, "WARNING", "succeeded although it had been told to stop: no such user"),
        (Raised(failure=FAILURE), {}, "ERROR", "failed: ValueError: no such user\nTraceback ..."),
        (Raised(failure=FAILURE, delay=5.0), {"max_attempts": 3}, "WARNING", "next attempt in 5.0 s: ValueError"),
        (Snoozed(delay=60), {}, "INFO", "snoozes for 60 s"),
        (Discarded(failure=FAILURE), {}, "INFO", "was discarded"),
        (Interrupted(), {}, "WARNING", "interrupted"),
        (Cancelled(failure=FAILURE), {}, "INFO", "was cancelled"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_attempt_is_one_line(emitter, caplog, monkeypatch, outcome, policy, level, text):
    monkeypatch.setattr("django_vtasks.logs.is_heard", lambda *_, **__: False)
    emitter.emit(ended(outcome, **policy))
    [record] = caplog.records
    assert record.levelname == level
    assert text in record.getMessage()
    assert (record.job_id, record.task, record.queue, record.attempt) == ("the-id", "app.tasks.send", "mail", 1)


def test_a_failure_is_no_second_alarm_where_the_framework_raises_one(emitter, caplog, monkeypatch):
    monkeypatch.setattr("django_vtasks.logs.is_heard", lambda *_, **__: True)
    emitter.emit(ended(Raised(failure=FAILURE)))
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "Traceback" not in record.getMessage()


def test_a_rescue_says_what_became_of_the_job(emitter, caplog):
    decision = decide(CLAIM, LeaseExpired(owner="w:1"), Policy(), 1.0)
    emitter.emit(happened.JobRescued(claim=CLAIM, decision=decision))
    assert "w:1" in caplog.text
    assert "dead letter" in caplog.text


def outage(service, attempt):
    return happened.StoreOutage(service=service, error=StoreUnavailable("away"), attempt=attempt, pause=1.0)


def test_an_outage_has_one_traceback_and_one_speaker(emitter, caplog):
    for attempt in range(1, 4):
        for service in ("consumer", "promoter", "lease"):
            emitter.emit(outage(service, attempt))
    shown = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.levelname for record in shown] == ["ERROR", "WARNING", "WARNING"]
    assert [record.exc_info is not None for record in shown] == [True, False, False]


def test_another_service_speaks_when_the_first_has_recovered(emitter, caplog):
    emitter.emit(outage("consumer", 1))
    emitter.emit(outage("promoter", 1))
    emitter.emit(happened.StoreRecovered(service="consumer", seconds=1.0))
    emitter.emit(outage("promoter", 2))
    shown = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(shown) == 2
    assert shown[1].startswith("promoter cannot use")


def test_the_end_of_an_outage_is_one_line_when_all_have_recovered(emitter, caplog):
    emitter.emit(outage("consumer", 1))
    emitter.emit(outage("promoter", 1))
    emitter.emit(happened.StoreRecovered(service="consumer", seconds=1.0))
    assert "again after" not in _shown(caplog)
    emitter.emit(happened.StoreRecovered(service="promoter", seconds=1.0))
    assert _shown(caplog).count("can be used again after") == 1


@pytest.mark.parametrize(("aftershock", "level"), [(3600.0, "WARNING"), (0.0, "ERROR")])
def test_what_breaks_soon_after_an_outage_belongs_to_it(emitter, caplog, monkeypatch, aftershock, level):
    monkeypatch.setattr(logs, "AFTERSHOCK", aftershock)
    emitter.emit(outage("consumer", 1))
    emitter.emit(happened.StoreRecovered(service="consumer", seconds=1.0))
    emitter.emit(outage("consumer", 1))
    assert [record.levelname for record in caplog.records][-1] == level


def test_a_lease_that_was_merely_renewed_is_no_news(emitter, caplog):
    emitter.emit(happened.LeaseRenewed(worker_id="w:1", lost=False))
    assert caplog.text == ""
    emitter.emit(happened.LeaseRenewed(worker_id="w:1", lost=True))
    assert "had run out" in caplog.text


@pytest.mark.parametrize(("lost", "level", "text"), [(0, "INFO", "79 slots"), (9, "WARNING", "9 slots")])
def test_slots_that_passed_are_worth_a_warning_only_when_the_entry_asked_for_them(emitter, caplog, lost, level, text):
    emitter.emit(happened.SlotsMissed(entry="report", count=79, lost=lost))
    [record] = caplog.records
    assert record.levelname == level
    assert record.getMessage().startswith(text)


def _shown(caplog):
    return "\n".join(record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)


def test_a_success_after_being_told_to_stop_is_counted():
    client = pytest.importorskip("prometheus_client")
    labels = {"task_name": "app.tasks.send", "queue": "mail"}
    recorder = metrics.Recorder()
    before = client.REGISTRY.get_sample_value("vtasks_late_successes_total", labels) or 0.0
    for outcome in (Succeeded(), Succeeded(despite=FAILURE)):
        recorder.ended(ended(outcome))
    assert client.REGISTRY.get_sample_value("vtasks_late_successes_total", labels) == before + 1
