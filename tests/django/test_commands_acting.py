"""`vtasks pause`, `resume`, `cancel`, `purge` and `clear_queue`: what they change, and what they leave alone."""

from __future__ import annotations

import io
import json
import time

import pytest
from django.core.management import CommandError, call_command

from django_vtasks.framework import InvalidTaskBackend
from django_vtasks.jobs.model import JobState
from django_vtasks.stores.base import JobFilter
from tests.support.builders import a_key
from tests.support.operators import OWNER, Scene, answering


@pytest.fixture
def scene(memory):
    return Scene(memory)


def run(command, *arguments):
    out = io.StringIO()
    call_command(command, *arguments, stdout=out)
    return out.getvalue()


def refusal(command, *arguments):
    with pytest.raises(CommandError) as caught:
        run(command, *arguments)
    return caught.value.returncode, str(caught.value)


def ids(scene, state, **which):
    return {record.job.id for record in scene.admin.page(JobFilter(state=JobState(state), **which)).records}


# -- pause and resume -------------------------------------------------------------------------------------------------


def test_pause_and_resume_several_queues(scene):
    scene.ready(queue="mails")
    scene.ready(queue="reports")
    assert run("vtasks", "pause", "mails", "reports") == "default: paused mails, reports\n"
    assert [count.paused for count in scene.admin.counts()] == [True, True]
    report = json.loads(run("vtasks", "resume", "mails", "reports", "--json"))
    assert report == {"alias": "default", "queues": ["mails", "reports"], "state": "resumed"}
    assert [count.paused for count in scene.admin.counts()] == [False, False]


def test_a_queue_that_nobody_knows_is_not_paused_by_a_typo(scene):
    scene.ready(queue="mails")
    code, message = refusal("vtasks", "pause", "mails", "mials")
    assert code == 2
    assert "known are default, mails" in message
    assert not any(count.paused for count in scene.admin.counts())
    run("vtasks", "pause", "mials", "--force")
    assert [count.queue for count in scene.admin.counts() if count.paused] == ["mials"]


def test_a_queue_known_by_its_worker_alone_can_be_paused(scene):
    scene.announce(queues=("imports",))
    assert "paused" in run("vtasks", "pause", "imports")


# -- cancel -----------------------------------------------------------------------------------------------------------


def test_cancel_tells_how_often_each_answer_was_given(scene):
    (waiting,) = scene.ready()
    (running,) = scene.running()
    assert run("vtasks", "cancel", waiting, running) == "1 cancelled, 1 running and told to stop\n"
    assert ids(scene, "dead") == {waiting}
    assert scene.admin.standing(running).cancel_requested


def test_cancelling_an_unknown_id_is_exit_code_three_and_the_others_are_cancelled(scene):
    (waiting,) = scene.ready()
    code, _ = refusal("vtasks", "cancel", "nope", waiting)
    assert code == 3
    assert ids(scene, "dead") == {waiting}


def test_cancelling_what_is_over_is_exit_code_one(scene):
    (done,) = scene.succeeded()
    assert refusal("vtasks", "cancel", done)[0] == 1


def test_cancel_by_filter_asks_first(scene, monkeypatch):
    mails = set(scene.ready(3, queue="mails"))
    scene.ready(2)
    with answering(monkeypatch, "y") as questions:
        assert refusal("vtasks", "cancel", "--queue", "mails") == (1, "Nothing was done.")
    assert questions == ["Cancel 3 jobs of 'default'? Type 'yes' to go on: "]
    assert ids(scene, "dead") == set()
    with answering(monkeypatch, "yes"):
        run("vtasks", "cancel", "--queue", "mails")
    assert ids(scene, "dead") == mails


def test_cancel_without_ids_and_filters_needs_all(scene):
    scene.delayed(2)
    assert refusal("vtasks", "cancel")[0] == 2
    assert run("vtasks", "cancel", "--all", "--state", "scheduled", "--force") == "2 cancelled\n"


# -- clear_queue ------------------------------------------------------------------------------------------------------


def test_clear_queue_takes_the_waiting_jobs_of_one_queue_delayed_ones_included(scene):
    scene.ready(3)
    scene.delayed(2)
    kept = {*scene.ready(queue="mails")}
    running, dead = set(scene.running()), set(scene.dead())
    assert run("clear_queue", "--force") == "Removed 5 waiting jobs of the queue 'default' of 'default'.\n"
    assert ids(scene, "ready") == kept
    assert ids(scene, "scheduled") == set()
    assert ids(scene, "leased") == running
    assert ids(scene, "dead") == dead


def test_clear_queue_frees_unique_keys(scene):
    scene.ready(unique=a_key("mutex"))
    run("clear_queue", "--force")
    assert scene.ready(unique=a_key("mutex"))
    assert len(ids(scene, "ready")) == 1


def test_clear_queue_all_queues_leaves_the_dead_letters(scene):
    scene.ready(queue="mails")
    scene.delayed(queue="reports")
    dead = set(scene.dead(queue="mails"))
    run("clear_queue", "--all-queues", "--force")
    assert ids(scene, "ready") | ids(scene, "scheduled") == set()
    assert ids(scene, "dead") == dead


def test_clear_queue_failed_takes_dead_letters_and_nothing_else(scene):
    waiting = set(scene.ready(queue="mails"))
    scene.dead(2)
    scene.dead(queue="mails")
    assert "Removed 3 dead letters of all queues" in run("clear_queue", "--failed", "--force")
    assert ids(scene, "dead") == set()
    assert ids(scene, "ready") == waiting


def test_clear_queue_failed_of_one_queue(scene):
    kept = set(scene.dead())
    scene.dead(queue="mails")
    run("clear_queue", "--failed", "--queue", "mails", "--force")
    assert ids(scene, "dead") == kept


def test_clear_queue_asks_and_takes_only_yes(scene, monkeypatch):
    waiting = set(scene.ready(2))
    with answering(monkeypatch, "y") as questions:
        assert run("clear_queue") == "Nothing was removed.\n"
    assert questions == ["Remove 2 waiting jobs of the queue 'default' of 'default'? Type 'yes' to go on: "]
    assert ids(scene, "ready") == waiting
    with answering(monkeypatch, "yes"):
        run("clear_queue")
    assert ids(scene, "ready") == set()


def test_clear_queue_of_an_unknown_queue_is_already_empty(scene):
    assert "already empty" in run("clear_queue", "--queue", "nope")


def test_clear_queue_of_an_unknown_alias_raises_the_framework_s_error(scene):
    with pytest.raises(InvalidTaskBackend):
        run("clear_queue", "--backend-alias", "nope")


def test_clear_queue_takes_more_than_one_chunk(scene):
    scene.ready(2500)
    assert "Removed 2,500 waiting jobs" in run("clear_queue", "--force")
    assert ids(scene, "ready") == set()


# -- purge ------------------------------------------------------------------------------------------------------------


def test_purge_removes_what_is_beyond_its_time(scene, settings):
    settings.VTASKS_DLQ_CAP = 1
    scene = Scene(_store())
    scene.dead(3)
    kept = set(scene.succeeded())
    assert json.loads(run("vtasks", "purge", "--json"))["letters"] == 2
    assert len(ids(scene, "dead")) == 1
    assert ids(scene, "succeeded") == kept


def _store():
    from django_vtasks.framework import task_backends

    return task_backends["default"].client_store


def test_purge_by_age_removes_results_and_leaves_the_rest(scene):
    scene.succeeded(2)
    scene.succeeded(queue="mails")
    waiting, dead = set(scene.ready()), set(scene.dead())
    assert run("vtasks", "purge", "--results", "3600") == "default: removed 0 results\n"
    assert run("vtasks", "purge", "--results", "0", "--queue", "mails") == "default: removed 1 results\n"
    assert run("vtasks", "purge", "--results", "0", "--dry-run") == "default: would remove 2 results\n"
    assert run("vtasks", "purge", "--results", "0") == "default: removed 2 results\n"
    assert (ids(scene, "ready"), ids(scene, "dead")) == (waiting, dead)


def test_purge_has_an_age_of_its_own_for_letters(scene):
    results = set(scene.succeeded())
    scene.dead(2)
    assert run("vtasks", "purge", "--letters", "0") == "default: removed 2 letters\n"
    assert ids(scene, "succeeded") == results


@pytest.mark.parametrize("arguments", [("--results", "-1"), ("--letters", "nan"), ("--dry-run",), ("--queue", "q")])
def test_purge_refuses_nonsense(scene, arguments):
    assert refusal("vtasks", "purge", *arguments)[0] == 2


def test_a_worker_that_is_running_is_left_alone_by_purge(scene):
    scene.announce()
    (running,) = scene.running(owner=OWNER)
    run("vtasks", "purge")
    assert scene.admin.standing(running).lease_until > time.time()


def test_without_a_terminal_a_confirmation_is_refused_with_what_to_do(scene, monkeypatch):
    scene.ready(2)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    code, text = refusal("clear_queue")
    assert (code, "--force" in text) == (2, True)
    assert len(ids(scene, "ready")) == 2
