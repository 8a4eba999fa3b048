"""A database whose disk is full."""

from __future__ import annotations

import contextlib
import time

from gauntlet.disks import SmallDisk
from gauntlet.feed import Feed
from gauntlet.outage import Kind, Outage
from gauntlet.scenarios.registry import scenario
from gauntlet.scenarios.servers import under_load
from gauntlet.stage import Stage
from gauntlet.waiting import PATIENCE

FULL = "No space left on device"


@scenario("disk", stores=("postgres",))
def disk_that_is_full(stage: Stage) -> None:
    """The disk under the database is full: enqueue says so, nothing is lost, and all goes on once there is room.

    The server refuses what needs a new page. With its log of changes on that disk it also goes down when the log needs
    room, and is started again when there is some, as a service manager does.

    Caught: crashes-in-an-outage, full-is-final.
    """
    with_log = stage.rng.random() < 0.5
    disk = stage.home.move_to_a_small_disk(with_log=with_log)
    workers, server = under_load(stage), stage.home.server
    (feed,) = stage.feeds
    with Outage(stage, workers, kind=Kind.FLICKER) as outage:
        before = len(feed.refusals)
        _keep_full(disk, stage.rng.uniform(5, 7), feed)
        if with_log:
            _need_more_log(stage)
            _keep_full(disk, stage.rng.uniform(2, 4), feed)
            stage.exercised(not server.running, "the server went on although its log had no room")
        disk.make_room()
        server.start()
    for worker in workers:
        worker.lapsed = True
    refusals = feed.refusals[before:]
    stage.facts |= {"server_ended": "yes" if with_log else "no", "refused": len(refusals)}
    stage.exercised(len(refusals) > 3, f"{len(refusals)} calls of producers were refused only")
    stage.exercised(any(FULL in worker.log_text() for worker in workers), "no worker met the full disk")
    stage.expect(any(FULL in text for text in refusals), f"no producer was told of the full disk: {refusals[:3]}")
    outage.judge()


def _keep_full(disk: SmallDisk, seconds: float, feed: Feed) -> None:
    """Take what there is and what the server gives back, for so long and until a producer was refused."""
    began, refused = time.monotonic(), len(feed.refusals)
    while (spent := time.monotonic() - began) < seconds or (
        len(feed.refusals) == refused and spent < seconds + 20 * PATIENCE
    ):
        disk.fill()
        time.sleep(0.3)


def _need_more_log(stage: Stage) -> None:
    """End the piece of the log that is being written, and the one that lies ready after it."""
    import psycopg

    for _ in range(4):
        with contextlib.suppress(psycopg.Error), stage.home.client() as client:
            client.execute("SELECT pg_switch_wal()")
            client.execute("SELECT pg_logical_emit_message(false, 'gauntlet', 'x')")
