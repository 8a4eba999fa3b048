"""`vtasks dlq`: every operation on dead letters, by id, by filter, on all of them."""

from __future__ import annotations

import io
import json
from itertools import pairwise

import pytest
from django.core.management import CommandError, call_command

from django_vtasks.jobs.codec import decode_letter
from django_vtasks.jobs.model import JobState
from django_vtasks.jobs.outcomes import Raised, Succeeded
from django_vtasks.stores.base import JobFilter
from tests.support.builders import a_failure, a_key
from tests.support.operators import Scene, answering


@pytest.fixture
def scene(memory):
    return Scene(memory)


def dlq(*arguments):
    out = io.StringIO()
    call_command("vtasks", "dlq", *arguments, stdout=out)
    return out.getvalue()


def refusal(*arguments):
    with pytest.raises(CommandError) as caught:
        dlq(*arguments)
    return caught.value.returncode, str(caught.value)


def ids(scene, state, **which):
    return {record.job.id for record in scene.admin.page(JobFilter(state=JobState(state), **which)).records}


def because(message, fingerprint):
    return Raised(failure=a_failure(message, fingerprint=fingerprint))


def test_list_groups_what_failed_alike(scene):
    scene.dead(3, outcome=because("no such customer", "f1"))
    scene.dead(1, outcome=because("timeout", "f2"))
    lines = dlq("list", "--groups").splitlines()
    assert lines[1].split()[0] == "3"
    assert "ValueError: no such customer" in lines[1]
    groups = json.loads(dlq("list", "--groups", "--json"))
    assert [(group["count"], group["fingerprint"]) for group in groups] == [(3, "f1"), (1, "f2")]


def test_list_filters_and_pages(scene):
    wanted = scene.dead(3, outcome=because("x", "f1"))
    scene.dead(outcome=because("x", "f2"))
    first = json.loads(dlq("list", "--fingerprint", "f1", "--limit", "2", "--json"))
    second = json.loads(dlq("list", "--fingerprint", "f1", "--limit", "2", "--json", "--after", first["next"]))
    found = [letter["id"] for page in (first, second) for letter in page["letters"]]
    assert sorted(found) == sorted(wanted)


def test_show_has_everything(scene):
    (job_id,) = scene.dead(args=[1], kwargs={"a": "b"})
    text = dlq("show", job_id)
    for line in (f"id: {job_id}", "args: [1]", 'kwargs: {"a":"b"}', "reason: failed", "message: boom"):
        assert line in text.splitlines()
    assert "attempt 1: raised on worker-1-abcd" in text
    assert "Traceback (most recent call last)" in text


def test_show_shows_bytes_that_are_no_job(scene):
    scene.client._state.inject("default", b"\xff no job")
    (record,) = scene.admin.page(JobFilter(state=JobState.READY)).records
    scene.claim_and_end("default", Succeeded())
    assert "bytes: \\xff no job" in dlq("show", record.job.id)


def test_a_job_that_is_no_dead_letter_is_refused(scene):
    (job_id,) = scene.ready()
    assert refusal("show", job_id) == (1, f"The job {job_id!r} is no dead letter but ready.")


def test_retry_by_id(scene):
    first, second = scene.dead(2)
    report = json.loads(dlq("retry", first, "--json"))
    assert report["retried"] == 1
    (record,) = scene.admin.page(JobFilter(state=JobState.READY)).records
    assert [record.job.id] == report["new_ids"]
    assert record.job.retry_of == first
    assert ids(scene, "dead") == {second}


def test_retry_one_group_at_a_rate_without_touching_the_others(scene):
    scene.dead(10, outcome=because("x", "f1"))
    others = set(scene.dead(2, outcome=because("x", "f2")))
    assert dlq("retry", "--fingerprint", "f1", "--rate", "2", "--force").startswith("retried 10 dead letters\n")
    assert ids(scene, "dead") == others
    due = sorted(record.job.run_after for record in scene.admin.page(JobFilter(state=JobState.SCHEDULED)).records)
    assert len(ids(scene, "ready")) == 1
    assert len(due) == 9
    gaps = [later - earlier for earlier, later in pairwise(due)]
    assert gaps == pytest.approx([0.5] * 8, abs=0.2)


def test_retry_into_another_queue(scene):
    (job_id,) = scene.dead()
    dlq("retry", job_id, "--to-queue", "slow")
    assert len(ids(scene, "ready", queue="slow")) == 1


def test_retry_of_everything_asks(scene, monkeypatch):
    scene.dead(3)
    assert refusal("retry")[0] == 2
    with answering(monkeypatch, "no") as questions:
        assert refusal("retry", "--all")[0] == 1
    assert questions == ["Retry 3 jobs of 'default'? Type 'yes' to go on: "]
    assert len(ids(scene, "dead")) == 3


def test_a_letter_whose_unique_key_is_taken_is_left_alone_and_told(scene):
    (job_id,) = scene.dead(unique=a_key("k"))
    scene.ready(unique=a_key("k"))
    code, message = refusal("retry", job_id)
    assert code == 1
    assert "1 dead letter was left alone" in message
    assert ids(scene, "dead") == {job_id}


@pytest.mark.parametrize("rate", ["0", "-5", "nan"])
def test_a_rate_that_is_none_is_refused(scene, rate):
    scene.dead()
    assert refusal("retry", "--all", "--force", "--rate", rate)[0] == 2


def test_edit_replaces_arguments(scene):
    (job_id,) = scene.dead(func="of.other.code", args=[1, 2], kwargs={"a": 1})
    dlq("edit", job_id, "--args", "[3]", "--to-queue", "slow")
    (record,) = scene.admin.page(JobFilter(state=JobState.READY)).records
    assert (record.job.args, record.job.kwargs, record.job.queue) == ([3], {"a": 1}, "slow")


def test_edit_keeps_what_is_not_shown(scene):
    (job_id,) = scene.dead(func="of.other.code", kwargs={"password": "hunter2", "user": "anna"})
    dlq("edit", job_id, "--kwargs", '{"password": "[redacted]", "user": "bob"}')
    (record,) = scene.admin.page(JobFilter(state=JobState.READY)).records
    assert record.job.kwargs == {"password": "hunter2", "user": "bob"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "use retry"),
        (("--args", "[1"), "not JSON"),
        (("--args", "{}"), "must be a JSON list"),
        (("--kwargs", "[]"), "must be a JSON object"),
        (("--kwargs", '{"new": "[redacted]"}'), "there was no value"),
    ],
)
def test_edit_refuses_what_is_no_change(scene, arguments, said):
    (job_id,) = scene.dead()
    code, message = refusal("edit", job_id, *arguments)
    assert code == 2
    assert said in message
    assert ids(scene, "dead") == {job_id}


def test_edit_refuses_arguments_that_the_function_does_not_take(scene):
    """Shown to catch: named arguments beside the positional ones of before, which failed when the job ran."""
    (job_id,) = scene.dead(func="tests.project.tasks.add", args=[1, 2])
    code, message = refusal("edit", job_id, "--kwargs", '{"a": 1, "b": 2}')
    assert code == 2
    assert "multiple values for argument 'a'" in message
    assert "--args '[]'" in message
    assert ids(scene, "dead") == {job_id}
    dlq("edit", job_id, "--args", "[]", "--kwargs", '{"a": 1, "b": 2}')
    assert ids(scene, "dead") == set()


def test_discard_by_id_and_by_reason(scene):
    first, second = scene.dead(2)
    assert dlq("discard", first) == "discarded 1 dead letter\n"
    assert ids(scene, "dead") == {second}
    assert dlq("discard", "--reason", "failed", "--force") == "discarded 1 dead letter\n"
    assert ids(scene, "dead") == set()


def test_export_and_import_lose_nothing(scene, tmp_path):
    file = tmp_path / "letters.jsonl"
    exported = set(scene.dead(3, kwargs={"password": "hunter2"}))
    before = {record.job.id: record.letter for record in scene.admin.page(JobFilter(state=JobState.DEAD)).records}
    assert dlq("export", str(file)) == f"exported 3 dead letters to {file}\n"
    assert {decode_letter(line).id for line in file.read_bytes().splitlines()} == exported
    dlq("discard", "--all", "--force")
    assert dlq("import", str(file)) == "imported 3 dead letters; 0 known already\n"
    after = {record.job.id: record.letter for record in scene.admin.page(JobFilter(state=JobState.DEAD)).records}
    assert {one: letter.job for one, letter in after.items()} == {one: letter.job for one, letter in before.items()}
    assert {one: letter.failure for one, letter in after.items()} == {
        one: letter.failure for one, letter in before.items()
    }
    assert dlq("import", str(file)) == "imported 0 dead letters; 3 known already\n"


def test_export_to_standard_output_is_one_object_a_line(scene):
    scene.dead(2)
    assert [json.loads(line)["func"] for line in dlq("export", "-").splitlines()] == ["tests.project.tasks.echo"] * 2


def test_a_broken_file_imports_nothing(scene, tmp_path):
    file = tmp_path / "letters.jsonl"
    scene.dead()
    dlq("export", str(file))
    dlq("discard", "--all", "--force")
    file.write_bytes(file.read_bytes() + b'{"id": "x"}\n')
    code, message = refusal("import", str(file))
    assert code == 2
    assert message.startswith("Nothing was imported: line 2 is no exported dead letter")
    assert ids(scene, "dead") == set()


def test_a_file_that_cannot_be_opened_is_told(scene, tmp_path):
    assert "cannot be read" in refusal("import", str(tmp_path / "nope"))[1]
    assert "cannot be written" in refusal("export", str(tmp_path / "nope" / "x"))[1]
