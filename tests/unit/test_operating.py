"""What admin and commands share: redaction, tables, wording, and operations on many jobs."""

from __future__ import annotations

import pytest

from django_vtasks.jobs.model import Job, JobState
from django_vtasks.operating import bulk
from django_vtasks.operating.overview import Overview, findings
from django_vtasks.operating.tables import table
from django_vtasks.operating.wording import counted, duration, iso, moment, shortened
from django_vtasks.stores.base import JobFilter, LetterGroup, Redrive
from django_vtasks.stores.memory import MemoryStore
from django_vtasks.tasks.redaction import HIDDEN, Redaction, filled_in, redaction_of
from tests.support.clock import START
from tests.support.operators import Scene

# -- redaction --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("password", "PASSWORD", "passwd", "user_password", "secret", "client_secret", "token", "access_token"),
        *("api_key", "apikey", "api-key", "private_key", "credentials", "Authorization"),
    ],
)
def test_what_is_named_like_a_secret_is_hidden_at_any_depth(name):
    args, kwargs = Redaction().arguments([{name: "x"}, [{"a": {name: "x"}}]], {name: "x", "b": {name: "x"}})
    assert args == [{name: HIDDEN}, [{"a": {name: HIDDEN}}]]
    assert kwargs == {name: HIDDEN, "b": {name: HIDDEN}}


def test_everything_else_is_shown_as_it_is():
    args, kwargs = Redaction().arguments([1, None, "x"], {"passage": True, "keys": [1.5]})
    assert (args, kwargs) == ([1, None, "x"], {"passage": True, "keys": [1.5]})


def test_a_task_names_arguments_that_are_hidden_however_they_are_passed():
    hide = Redaction(names=frozenset(("iban",)), positions=("amount", "iban"))
    assert hide.arguments([1, "DE1"], {}) == ([1, HIDDEN], {})
    assert hide.arguments([1], {"iban": "DE1"}) == ([1], {"iban": HIDDEN})


def test_a_task_hides_everything():
    hide = Redaction(names=frozenset(("*",)))
    assert hide.arguments([1], {"a": 2}) == ([HIDDEN], {"a": HIDDEN})
    assert hide.value({"a": 2}) == HIDDEN


def test_the_option_of_a_task_counts():
    job = Job(id="1", func="tests.support.operators.pay", args=[10, "DE1"])
    assert redaction_of(job).arguments(job.args, job.kwargs) == ([10, HIDDEN], {})


def test_a_task_that_is_gone_hides_what_is_named_like_a_secret():
    job = Job(id="1", func="nowhere.tasks.gone", kwargs={"token": "x", "a": 1})
    assert redaction_of(job).arguments(job.args, job.kwargs) == ([], {"token": HIDDEN, "a": 1})


def test_hidden_values_are_put_back_in_their_places():
    original = {"a": [1, {"token": "x"}], "token": {"deep": True}}
    assert filled_in({"a": [2, {"token": HIDDEN}], "token": HIDDEN}, original) == {
        "a": [2, {"token": "x"}],
        "token": {"deep": True},
    }


@pytest.mark.parametrize("edited", [{"b": HIDDEN}, {"a": [1, 2, HIDDEN]}, {"a": {"token": HIDDEN}}])
def test_a_hidden_value_without_an_original_is_refused(edited):
    with pytest.raises(ValueError, match="there was no value"):
        filled_in(edited, {"a": [1, 2]})


# -- tables and words -------------------------------------------------------------------------------------------------


def test_a_table_is_aligned_and_numbers_stand_to_the_right():
    drawn = table(("QUEUE", "READY", "X"), [("default", 1200, None), ("m", 3, "long")])
    assert drawn.splitlines() == [
        "QUEUE    READY  X",
        "default  1,200  -",
        "m            3  long",
    ]


def test_a_table_without_rows_is_its_headings():
    assert table(("A", "B"), []) == "A  B"


def test_a_table_is_cut_at_the_width_of_the_terminal():
    assert table(("A", "B"), [("x" * 30, "y")], width=10).splitlines() == ["A        …", "xxxxxxxxx…"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (0.04, "0 s"),
        (0.44, "0.4 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86_400 * 3 + 4 * 3600 + 59, "3 d 4 h"),
    ],
)
def test_durations_in_words(seconds, text):
    assert duration(seconds) == text


def test_moments_in_words():
    assert moment(None) == "-"
    assert moment(1_800_000_000.0) == "2027-01-15 08:00:00 UTC"
    assert moment(1e30) == "1e+30"
    assert iso(None) is None
    assert iso(1_800_000_000.0) == "2027-01-15T08:00:00+00:00"
    assert iso(1e30) is None


def test_numbers_and_lines_in_words():
    assert counted(1, "job") == "1 job"
    assert counted(2000, "job") == "2,000 jobs"
    assert counted(0, "job is", "jobs are") == "0 jobs are"
    assert shortened("a\n b\tc", 10) == "a b c"
    assert shortened("x" * 11, 10) == "x" * 9 + "…"


# -- many jobs --------------------------------------------------------------------------------------------------------


class Counting(MemoryStore):
    """Counts the calls of each operation and the jobs each was about."""

    def __init__(self):
        super().__init__(lambda: START, dead_letter_cap=5000)
        self.calls = []

    def redrive(self, ids, changes):
        self.calls.append(("redrive", len(ids)))
        return super().redrive(ids, changes)

    def page(self, which, *, after=None, limit=50):
        self.calls.append(("page", limit))
        return super().page(which, after=after, limit=limit)


@pytest.fixture
def store():
    return Counting()


def test_many_jobs_are_handled_in_chunks_of_bounded_size(store):
    made = Scene(store).dead(1200)
    meant = bulk.meant_by(store, JobFilter(state=JobState.DEAD))
    assert (set(meant.ids), meant.more) == (set(made), False)
    done = bulk.redrive(store, meant.ids)
    assert (done.changed, done.left_alone, done.not_reached) == (1200, 0, 0)
    assert [size for name, size in store.calls if name == "redrive"] == [bulk.STEP, bulk.STEP, 200]
    assert max(size for name, size in store.calls if name == "page") <= bulk.CHUNK


def test_an_operation_ends_when_its_time_is_spent(store):
    class Spent(bulk.Budget):
        """Lets two steps pass."""

        def is_spent(self):
            return len([name for name, _ in store.calls if name == "redrive"]) == 2

    made = Scene(store).dead(1050)
    done = bulk.redrive(store, made, budget=Spent())
    assert (done.changed, done.not_reached) == (1000, 50)
    assert bulk.Budget(0).is_spent()
    assert not bulk.Budget(60).is_spent()
    assert not bulk.NO_LIMIT.is_spent()
    assert bulk.cancel(store, done.new_ids, budget=bulk.Budget(0)).total() == 0


def test_a_rate_goes_on_from_chunk_to_chunk(store):
    Scene(store).dead(1001)
    bulk.redrive(store, bulk.meant_by(store, JobFilter(state=JobState.DEAD)).ids, rate=100)
    due = [record.job.run_after for record in store.page(JobFilter(state=JobState.SCHEDULED), limit=2000).records]
    assert len(due) == 1000
    assert (min(due), max(due)) == (pytest.approx(START + 0.01), pytest.approx(START + 10))


def test_what_is_meant_has_a_bound(store):
    Scene(store).ready(30)
    meant = bulk.meant_by(store, JobFilter(state=JobState.READY), at_most=20)
    assert (len(meant.ids), meant.more) == (20, True)
    exact = bulk.meant_by(store, JobFilter(state=JobState.READY), at_most=30)
    assert (len(exact.ids), exact.more) == (30, False)


def test_what_is_left_alone_is_counted(store):
    dead = Scene(store).dead(2)
    done = bulk.redrive(store, [*dead, "gone"], Redrive(queue="slow"))
    assert (done.changed, done.left_alone, len(done.new_ids)) == (2, 1, 2)
    assert bulk.discard(store, JobState.DEAD, dead) == bulk.Done(left_alone=2)
    assert bulk.hasten(store, ["gone"]) == bulk.Done(left_alone=1)


def test_a_group_of_letters_without_a_class_is_told_by_its_message():
    group = LetterGroup(
        fingerprint="f",
        func="app.task",
        exception_class="",
        message="Exceeded max_rescues (0)",
        count=2,
        first_failed_at=START,
        last_failed_at=START,
    )
    [finding] = findings(Overview(alias="default", at=START + 3, groups=(group,)))
    assert finding.text == "2 dead letters: app.task failed (Exceeded max_rescues (0)), last 3 s ago."
