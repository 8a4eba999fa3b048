"""What is not shown of arguments is not shown in errors either, and cannot be searched for."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.urls import reverse

from django_vtasks.events import AttemptEnded, events
from django_vtasks.framework import LOGGER_NAME, task_backends
from django_vtasks.jobs.model import Attempt, DeadLetter, DeadReason, Failure, Job, JobRecord, JobState, OutcomeKind
from django_vtasks.logs import LogLines
from django_vtasks.operating.aliases import alias_named
from django_vtasks.operating.facts import why
from django_vtasks.stores.base import JobFilter
from django_vtasks.tasks.redaction import HIDDEN, MOST, Redaction, hiding, searcher, veiled
from django_vtasks.worker import Worker
from tests.django.conftest import entry
from tests.support import secretive_tasks as tasks

IBAN, PASSWORD = "DE02120300000000202051", "correct horse\n'battery'"
SECRETS = (IBAN, "horse", "battery", "staple")


def run_jobs():
    asyncio.run(Worker(task_backends["default"]).run(handle_signals=False, run_once=True))


def letters(store):
    return [record.letter for record in store.page(JobFilter(state=JobState.DEAD)).records]


def tells(text):
    return [secret for secret in SECRETS if secret in text]


# -- as it is kept ----------------------------------------------------------------------------------------------------


def test_the_error_of_a_job_is_kept_without_what_is_hidden(memory):
    tasks.transfer.enqueue(10, IBAN)
    tasks.sign_in.enqueue("olga", password=PASSWORD)
    run_jobs()
    first, second = sorted(letters(memory), key=lambda letter: letter.failure.exception_class)
    assert first.failure.message == f"olga:{HIDDEN}"
    assert second.failure.message == f"cannot move 10 to '{HIDDEN}'"
    for letter in (first, second):
        assert HIDDEN in letter.failure.traceback
        failures = [letter.failure, *(attempt.failure for attempt in letter.job.attempts)]
        assert not tells(" ".join(failure.message + failure.traceback for failure in failures))
    assert second.job.args == [10, IBAN], "the job itself is whole, so that it can be retried"


def test_no_member_of_a_batch_tells_on_another(settings):
    settings.TASKS = entry(QUEUES=[])
    settings.VTASKS_QUEUES = {"default": {}, "batch": {"batch": {"count": 10, "timeout": 0.05}}}
    for word in ("horse", "staple"):
        tasks.together.using(queue_name="batch").enqueue({}, password=word)
    run_jobs()
    found = letters(task_backends["default"].admin_store)
    assert [letter.failure.message for letter in found] == [f"{HIDDEN} {HIDDEN}"] * 2


@pytest.mark.parametrize("task", [tasks.transfer, tasks.chained])
def test_no_log_line_tells(memory, caplog, task):
    lines = LogLines()
    stop = events.subscribe(AttemptEnded, lines.ended)
    caplog.set_level(logging.DEBUG)
    try:
        task.enqueue(10, IBAN)
        run_jobs()
    finally:
        stop()
    own = [record for record in caplog.records if record.name.startswith("django_vtasks")]
    [frameworks] = [record for record in caplog.records if record.name == LOGGER_NAME and record.exc_info]
    assert any(HIDDEN in getattr(record, "traceback", "") for record in own)
    assert not tells(" ".join(f"{record.getMessage()} {getattr(record, 'traceback', '')}" for record in own))
    assert "ValueError" in caplog.text
    assert "secretive_tasks.py" in caplog.text
    assert not tells(caplog.text)
    assert frameworks.exc_info[0].__name__ == "ValueError"


def test_a_job_that_is_refused_is_told_of_all_the_same(memory, caplog):
    memory.add([Job(id="1" * 32, func="tests.support.secretive_tasks.gone", kwargs={"password": "horse"})])
    run_jobs()
    assert [letter.reason for letter in letters(memory)] == [DeadReason.UNKNOWN_TASK]
    assert [record for record in caplog.records if record.name == LOGGER_NAME and record.exc_info]
    assert "AttributeError" not in caplog.text


def test_an_exception_that_tells_nothing_is_logged_as_it_is(memory, caplog):
    tasks.harmless.enqueue(10, IBAN)
    run_jobs()
    [record] = [record for record in caplog.records if record.name == LOGGER_NAME and record.exc_info]
    assert record.exc_info[0] is ZeroDivisionError


def test_the_immediate_backend_does_not_tell(immediate):
    result = tasks.transfer.enqueue(10, IBAN)
    assert HIDDEN in result.errors[0].traceback
    assert not tells(result.errors[0].traceback)


# -- letters of before ------------------------------------------------------------------------------------------------


@pytest.fixture
def old_letter(memory):
    """A letter as the 3.2 line left it, with everything in it."""
    failure = Failure(
        exception_class="ValueError", message=f"no {IBAN}", traceback=f"ValueError: no {IBAN}", fingerprint="f"
    )
    last = Attempt(number=1, worker_id="w", started_at=1.0, ended_at=2.0, outcome=OutcomeKind.RAISED, failure=failure)
    func = "tests.support.secretive_tasks.transfer"
    job = Job(id="0" * 32, func=func, args=[10, IBAN], attempts=(last,), starts=1)
    letter = DeadLetter(
        id=job.id,
        raw=b"",
        queue="default",
        job=job,
        reason=DeadReason.FAILED,
        failure=failure,
        first_failed_at=2.0,
        failed_at=2.0,
    )
    memory.restore([letter])
    return letter


@pytest.fixture
def root(client, db):
    client.force_login(User.objects.create_superuser("root"))
    return client


def test_pages_do_not_tell_what_old_letters_hold(root, old_letter):
    for name, args in (("deadletter_changelist", []), ("job_change", [old_letter.id])):
        page = root.get(reverse(f"admin:django_vtasks_{name}", args=args), {"fingerprint": "f"}).content.decode()
        assert HIDDEN in page
        assert not tells(page)


@pytest.mark.parametrize(
    "command",
    [
        *(
            ("explain",),
            ("explain", "--json"),
            ("dlq", "list"),
            ("dlq", "list", "--json"),
            ("dlq", "show"),
            ("watch",),
        ),
        *(("dlq", "list", "--groups"), ("dlq", "list", "--groups", "--json")),
    ],
)
def test_commands_do_not_tell_what_old_letters_hold(old_letter, command):
    out = io.StringIO()
    arguments = (
        [*command, old_letter.id] if command[:1] in (("explain",), ("watch",)) or "show" in command else command
    )
    told = ""
    try:
        call_command("vtasks", *arguments, stdout=out)
    except Exception as error:
        told = str(error)
    told += out.getvalue()
    assert old_letter.id in told or HIDDEN in told
    assert not tells(told)


def test_the_reasons_do_not_tell(old_letter):
    [reason] = why(alias_named("default"), old_letter.id)
    assert HIDDEN in reason.text
    assert not tells(reason.text)


# -- searching --------------------------------------------------------------------------------------------------------


def test_a_search_in_the_admin_does_not_find_what_is_hidden(root, old_letter):
    def found(text):
        page = root.get(reverse("admin:django_vtasks_deadletter_changelist"), {"q": text}).content.decode()
        return f'value="{old_letter.id}"' in page

    assert found("secretive")
    assert found("[10,")
    assert not found(IBAN)
    assert not found(IBAN[:6])


def test_an_operation_on_what_matches_is_not_about_what_is_hidden(old_letter):
    out = io.StringIO()
    call_command("vtasks", "dlq", "list", "--text", IBAN, "--json", stdout=out)
    assert json.loads(out.getvalue())["letters"] == []


def test_a_task_that_hides_everything_is_found_by_id_and_path_only():
    job = Job(id="1", func="tests.support.secretive_tasks.transfer", kwargs={"iban": IBAN, "amount": "ten"})
    assert "ten" in searcher()(job)
    assert IBAN not in searcher()(job)


# -- in texts ---------------------------------------------------------------------------------------------------------


def hide(redaction, *args, **kwargs):
    return hiding(redaction, [(args, kwargs)])


def test_a_value_is_hidden_as_it_is_and_as_python_and_json_write_it():
    text = hide(Redaction(), password=PASSWORD)
    for written in (PASSWORD, repr(PASSWORD), json.dumps(PASSWORD)):
        assert not tells(text(f"<{written}>"))


def test_values_are_hidden_at_any_depth_and_the_longest_first():
    text = hide(Redaction(), {"token": ["abcd", {"x": "abcdef"}], "other": "shown"})
    assert text("abcdef abcd shown") == f"{HIDDEN} {HIDDEN} shown"


def test_short_values_and_numbers_are_left():
    assert hide(Redaction(), password="abc", token=12345)("abc 12345") == "abc 12345"


def test_too_many_values_hide_the_whole_text():
    text = hide(Redaction(), password=[f"word{number}" for number in range(MOST + 1)])
    assert text("harmless") == HIDDEN
    assert text("") == ""


def test_deep_nesting_is_no_trouble():
    value = "deep secret"
    for _ in range(5000):
        value = [value]
    assert hide(Redaction(), password=value)("a deep secret") == f"a {HIDDEN}"


def test_a_record_with_nothing_to_hide_is_the_same_object():
    record = JobRecord(job=Job(id="1", func="nowhere.f", args=["x"]), state=JobState.READY)
    assert veiled(record) is record
