"""A small project on real Celery moves by the commands of the guide; both workers run side by side on one server."""

from __future__ import annotations

import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta

import pytest

from django_vtasks.contrib.celery import import_beat_schedule
from django_vtasks.scheduling.entries import parse
from tests.integrations.project import package
from tests.support.processes import ROOT, process_environment
from tests.support.waiting import eventually

celery = package("celery.schedules")
pytestmark = pytest.mark.acceptance

GUIDE = ROOT / "docs" / "upgrading" / "from-celery.md"
#: Everything in the project knows the number of its order, so that what is lost or doubled has a name.
TASKS = """
import os

from celery import shared_task
from proj.celery import app


def note(line):
    with open(os.environ["SHOP_LOG"], "a") as file:
        file.write(line + "\\n")


@app.task
def charge(order):
    note(f"charge {order}")


@shared_task(bind=True, max_retries=3, default_retry_delay=0.2)
def fetch(self, order):
    if self.request.retries < 2:
        raise self.retry(exc=ConnectionError(order))
    note(f"fetch {order} after {self.request.retries}")


@shared_task(queue="reports", ignore_result=True)
def report(order, kind="short"):
    note(f"report {order} {kind}")
    charge.delay(f"{order}-reported")


@shared_task
def tick():
    note("tick")
"""
ORDERS = """
from shop.tasks import charge, fetch, report


def place(order):
    charge.delay(order)
    charge.apply_async((f"{order}-later",), countdown=1)
    fetch.delay(order)
    report.apply_async(kwargs={"order": order, "kind": "long"}, queue="reports", priority=5)
"""
APP = """
import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "proj.settings")
app = Celery("proj")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
"""
SETTINGS = """
import os
from celery.schedules import crontab

SECRET_KEY = "x" * 50
USE_TZ = True
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
CELERY_BROKER_URL = os.environ["SHOP_BROKER"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_BEAT_SCHEDULE = {
    "tick": {"task": "shop.tasks.tick", "schedule": 1.0},
    "nightly": {"task": "shop.tasks.report", "schedule": crontab(minute=0, hour=3), "args": ("nightly",)},
}
"""
MOVED = """
from django_vtasks.contrib.celery import import_beat_schedule

INSTALLED_APPS += ["django_vtasks"]
TASKS = {
    "default": {
        "BACKEND": "django_vtasks.backends.valkey.ValkeyTaskBackend",
        "OPTIONS": {"BROKER_URL": os.environ["SHOP_BROKER"]},
    }
}
VTASKS_QUEUES = ["default", "reports"]
VTASKS_SCHEDULE = import_beat_schedule(CELERY_BEAT_SCHEDULE)
"""


class Shop:
    """One checkout of the project: code run in it, and its workers."""

    def __init__(self, folder, url, log):
        self.folder = folder
        path = os.pathsep.join((str(folder), str(ROOT / "src")))
        self._env = process_environment(
            PYTHONPATH=path, DJANGO_SETTINGS_MODULE="proj.settings", SHOP_BROKER=url, SHOP_LOG=str(log)
        )
        self._started = []

    def write(self, **files):
        for name, text in files.items():
            file = self.folder / f"{name.replace('__', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))
            (file.parent / "__init__.py").touch()

    def place(self, orders, *, setup):
        """As a web process of this checkout."""
        code = f"{setup}\nfrom shop.orders import place\nfor order in {list(orders)!r}: place(order)"
        self.run(sys.executable, "-c", code)

    def run(self, *command):
        done = subprocess.run(
            command, cwd=self.folder, env=self._env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *command):
        with (self.folder / f"log-{len(self._started)}").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=self.folder,
                env=self._env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def logs(self):
        return "\n".join(file.read_text(errors="replace")[-3000:] for file in sorted(self.folder.glob("log-*")))

    def stop(self):
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait(20)


OLD_SETUP = "import proj.celery"
NEW_SETUP = "import django; django.setup()"
CELERY_WORKER = ("-m", "celery", "-A", "proj.celery", "worker", "-P", "threads", "-c", "4", "-Q", "celery,reports")
OUR_WORKER = ("-m", "django", "runworker", "--concurrency", "4")


def imports_changed(folder):
    """What the second step of the guide does, with its own command."""
    (command,) = re.findall(r"^ +\$ (grep -rlE .*?)\n +```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    subprocess.run(["bash", "-c", command.replace("\\\n", " ")], cwd=folder, check=True, timeout=20)
    (folder / "proj" / "celery.py").unlink()


@pytest.fixture
def shops(tmp_path, clean_valkey):
    """The project before and after the move, and the file in which both note what they did."""
    log = tmp_path / "done.log"
    log.touch()
    old = Shop(tmp_path / "old", clean_valkey.url, log)
    old.folder.mkdir()
    old.write(proj__settings=SETTINGS, proj__celery=APP, shop__tasks=TASKS, shop__orders=ORDERS)
    shutil.copytree(old.folder, tmp_path / "new")
    new = Shop(tmp_path / "new", clean_valkey.url, log)
    imports_changed(new.folder)
    with (new.folder / "proj" / "settings.py").open("a") as settings:
        settings.write(MOVED)
    yield old, new, log
    old.stop()
    new.stop()


def done(log):
    return collections.Counter(line for line in log.read_text().splitlines() if line != "tick")


def expected(orders):
    return collections.Counter(
        line
        for order in orders
        for line in (
            f"charge {order}",
            f"charge {order}-later",
            f"fetch {order} after 2",
            f"report {order} long",
            f"charge {order}-reported",
        )
    )


@pytest.mark.valkey
@pytest.mark.timeout(240)
def test_nothing_is_lost_or_doubled_while_both_run_side_by_side(shops, clean_valkey):
    old, new, log = shops
    assert "celery" not in (new.folder / "shop" / "tasks.py").read_text().replace("contrib.celery", "")
    before = [f"old-{number}" for number in range(20)]
    after = [f"new-{number}" for number in range(20)]
    during = [f"late-{number}" for number in range(20)]

    # Jobs wait on both sides before anybody works: a worker that took the other's would be seen.
    old.place(before, setup=OLD_SETUP)
    new.place(after, setup=NEW_SETUP)
    celery_worker, our_worker = old.start(*CELERY_WORKER), new.start(*OUR_WORKER)
    # A web process that was not restarted yet goes on sending to Celery.
    old.place(during, setup=OLD_SETUP)

    wanted = expected(before + after + during)
    eventually(
        lambda: sum(done(log).values()) >= sum(wanted.values()),
        within=90,
        message=lambda: f"{wanted - done(log)}\n{old.logs()}\n{new.logs()}",
    )
    # Celery's warm shutdown, as in the guide: its queues are empty, nothing is left for nobody.
    celery_worker.send_signal(signal.SIGTERM)
    assert celery_worker.wait(60) == 0
    our_worker.send_signal(signal.SIGTERM)
    assert our_worker.wait(60) == 0
    assert done(log) == wanted
    assert [clean_valkey.call(f"LLEN {queue}") for queue in ("celery", "reports")] == [b":0", b":0"]
    assert clean_valkey.call("LLEN {vt}:q:failed") == b":0"


@pytest.mark.valkey
def test_the_imported_beat_schedule_fires(shops):
    _old, new, log = shops
    new.start(*OUR_WORKER, "--scheduler")
    eventually(lambda: log.read_text().count("tick") >= 3, within=60, message=new.logs)
    shown = new.run(sys.executable, "-m", "django", "vtasks", "schedule")
    assert re.search(r"^nightly +0 3 \* \* \*.* +shop\.tasks\.report ", shown, re.MULTILINE), shown


# -- Celery's own crontab objects -------------------------------------------------------------------------------------

CRONTABS = [
    {},
    {"minute": 0, "hour": 3},
    {"minute": "*/15"},
    {"minute": "*/7", "hour": "8-18/2"},
    {"minute": "30", "hour": "*/6", "day_of_week": "mon-fri"},
    {"minute": 5, "hour": 0, "day_of_month": "1,15"},
    {"minute": 59, "hour": 23, "day_of_week": "sunday"},
    {"minute": "0,30", "hour": "0-4", "month_of_year": "*/3"},
]


@pytest.mark.parametrize("fields", CRONTABS, ids=str)
def test_a_crontab_of_celery_fires_at_the_same_minutes_after_the_move(fields):
    theirs = celery.crontab(**fields)
    (ours,) = parse(import_beat_schedule({"x": {"task": "a.b", "schedule": theirs}})).usable
    start = datetime(2026, 2, 26, 12, tzinfo=UTC)
    minutes = [start + timedelta(minutes=number) for number in range(1, 9 * 24 * 60)]
    wanted = [at.timestamp() for at in minutes if fits(theirs, at)]
    assert list(ours.schedule.slots_between(start.timestamp(), minutes[-1].timestamp())) == wanted


def fits(crontab, at):
    return (
        at.minute in crontab.minute
        and at.hour in crontab.hour
        and at.day in crontab.day_of_month
        and at.month in crontab.month_of_year
        and at.isoweekday() % 7 in crontab.day_of_week
    )
