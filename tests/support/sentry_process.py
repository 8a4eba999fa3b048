"""A process with the real SDK as a project sets it up, and a transport that keeps what it is given.

Arguments: names of tasks of `sentry_tasks`. Runs their jobs with a worker, and prints the events as JSON lines.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

import django
import sentry_sdk
from sentry_sdk.transport import Transport


class Kept(Transport):
    """Sends nothing anywhere."""

    def __init__(self, options=None):
        super().__init__(options)
        self.events = []

    def capture_envelope(self, envelope):
        self.events += [event for item in envelope.items if (event := item.get_event())]


async def work(worker, results):
    """Run the worker until every job is over; one that never ends by itself is cancelled once it runs."""
    from django_vtasks.framework import TaskResultStatus
    from tests.support.waiting import aeventually

    running = asyncio.create_task(worker.run(handle_signals=False, run_once=True))
    for result in results:
        if "endless" in result.task.module_path:

            async def runs(result=result):
                await result.arefresh()
                return result.status == TaskResultStatus.RUNNING

            await aeventually(runs)
            await result.acancel()
    await running


def enqueued(task):
    """The result of a call; what takes an account gets secrets."""
    if task.name.endswith("pay"):
        return task.enqueue(10, "DE02120300000000202051", password="correct horse")
    return task.enqueue()


def main(names):
    """Print the events of the jobs of these tasks."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.project.settings")
    transport = Kept()
    sentry_sdk.init(dsn="https://key@sentry.invalid/1", transport=transport, traces_sample_rate=0.0)
    django.setup()

    from django_vtasks import logs
    from django_vtasks.framework import task_backends
    from django_vtasks.worker import Worker
    from tests.support import sentry_tasks

    logs.install()
    results = [enqueued(getattr(sentry_tasks, name)) for name in names]
    asyncio.run(work(Worker(task_backends["default"]), results))
    sentry_sdk.flush()
    for event in transport.events:
        sys.stdout.write(f"{json.dumps(event, default=str)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
