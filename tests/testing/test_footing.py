"""Inside the transaction of a TestCase: commits happen as in production, and one task's failure harms no other."""

from __future__ import annotations

from django.db import connection, connections, transaction
from django.test import TestCase, TransactionTestCase, override_settings

from django_vtasks.testing import TasksMixin, VTasksTestCase, drain, enqueued
from tests.project.models import Effect
from tests.testing import tasks
from tests.testing.conftest import MEMORY

IN_MEMORY = {"default": {"BACKEND": MEMORY, "QUEUES": []}}


@override_settings(TASKS=IN_MEMORY)
class InMemory(VTasksTestCase):
    def test_an_enqueue_waits_for_the_commit(self):
        with self.captureOnCommitCallbacks() as callbacks:
            tasks.note.enqueue(1)
        assert len(callbacks) == 1
        assert self.enqueued() == []

    def test_captured_commits_enqueue(self):
        with self.captureOnCommitCallbacks(execute=True):
            tasks.note.enqueue(1)
        self.assertEnqueued(tasks.note, args=[1])
        assert len(self.drain().succeeded) == 1
        self.assertNotEnqueued()

    def test_jobs_enqueued_by_a_task_need_no_capture(self):
        with self.captureOnCommitCallbacks(execute=True):
            tasks.chain.enqueue(2)
            tasks.achain.enqueue(2)
        self.drain(raise_failures=True)
        assert sorted(tasks.RAN) == [0, 0, 1, 1, 2, 2]

    def test_hooks_of_a_task_run_once_and_after_it(self):
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            tasks.follow_up_on_commit.using(on_commit=False).enqueue("hook")
            self.drain(raise_failures=True)
        assert tasks.RAN == ["before", "hook"]
        assert callbacks == []

    def test_hooks_of_what_a_task_rolls_back_do_not_run(self):
        with self.captureOnCommitCallbacks(execute=True):
            tasks.follow_up_rolled_back.enqueue("hook")
        self.drain(raise_failures=True)
        assert tasks.RAN == ["rolled back"]

    def test_memory_of_another_test_is_gone_1(self):
        self._leave_one_behind()

    def test_memory_of_another_test_is_gone_2(self):
        self._leave_one_behind()

    def _leave_one_behind(self):
        self.assertNotEnqueued()
        tasks.note.using(on_commit=False).enqueue(1)
        assert len(self.enqueued()) == 1


class InDatabase(VTasksTestCase):
    def test_uncommitted_rows_are_seen_by_both_sides(self):
        Effect.objects.create(label="mine", pid=0)
        for task in (tasks.write, tasks.awrite):
            task.enqueue("mine")
        drained = self.drain(raise_failures=True)
        assert [ran.value for ran in drained.succeeded] == [2, 3]
        assert Effect.objects.filter(label="mine").count() == 3

    def test_the_connection_of_the_test_stays_open_and_in_its_transaction(self):
        before = connection.connection
        tasks.write.enqueue("x")
        tasks.boom.enqueue()
        self.drain()
        assert connection.connection is before
        assert connection.in_atomic_block
        assert not connection.needs_rollback

    def test_a_task_that_breaks_the_transaction_harms_nobody_else(self):
        Effect.objects.create(label="mine", pid=0)
        tasks.breaks_the_transaction.enqueue("default")
        tasks.write.enqueue("mine")
        drained = self.drain()
        assert (len(drained.failed), [ran.value for ran in drained.succeeded]) == (1, [2])

    def test_statements_of_the_store_are_not_counted(self):
        tasks.write.enqueue("x")
        with self.assertNumQueries(2):
            self.drain(raise_failures=True)

    def test_rollbacks_undo_everything(self):
        with transaction.atomic():
            tasks.write.enqueue("gone")
            self.drain()
            transaction.set_rollback(True)
        assert self.enqueued() == []
        assert not Effect.objects.exists()

    def test_one_job(self):
        result = tasks.write.enqueue("x")
        assert self.run_job(result).value == 1

    async def test_async_tests_share_the_transaction(self):
        await Effect.objects.acreate(label="mine", pid=0)
        await tasks.awrite.aenqueue("mine")
        from django_vtasks.testing import adrain

        drained = await adrain(raise_failures=True)
        assert [ran.value for ran in drained.succeeded] == [2]


class OutsideOfATransaction(TasksMixin, TransactionTestCase):
    def test_commits_are_real(self):
        tasks.follow_up_on_commit.enqueue("hook")
        self.drain(raise_failures=True)
        assert tasks.RAN == ["before", "hook"]
        tasks.breaks_the_transaction.enqueue("default")
        tasks.write.enqueue("x")
        drained = self.drain()
        assert (len(drained.failed), len(drained.succeeded)) == (1, 1)


class EachTestHasItsOwnJobs(TestCase):
    def test_1(self):
        self._leave_one_behind()

    def test_2(self):
        self._leave_one_behind()

    def _leave_one_behind(self):
        assert enqueued() == []
        tasks.note.enqueue(1)


def test_a_broken_transaction_is_mended_on_every_database(kit, ran):
    if kit.database is None:
        return
    tasks.breaks_the_transaction.enqueue(kit.database)
    tasks.note.enqueue("after")
    drained = drain()
    assert (len(drained.failed), len(drained.succeeded)) == (1, 1)
    assert connections[kit.database].in_atomic_block
    assert kit.backend.get_result(drained.failed[0].id).status.name == "FAILED"
