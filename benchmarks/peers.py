"""Who is measured, and how their workers start."""

import signal
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONCURRENCY = 100
THREADS = 20
REFERENCE = "django-vtasks"

_DJANGO = ("django>=6.1,<6.2", "psycopg[binary,pool]", "uvloop")
_ENOUGH = {"sqlite": 5000, "postgres": 5000, "valkey": 10000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One product.

    `requires` is what its virtual environment has, `package` the distribution whose version is reported, `module` its
    tasks in `apps`, `worker` its command. `jobs` caps the jobs of a run for the slow ones. Without `coroutines` it
    runs plain functions in threads only.
    """

    name: str
    requires: tuple[str, ...]
    package: str
    module: str
    stores: tuple[str, ...]
    worker: tuple[str, ...]
    coroutines: bool = True
    jobs: int | None = None
    stop: signal.Signals = signal.SIGTERM
    note: str = ""

    def count(self, store: str, scale: float) -> int:
        """How many jobs a run has."""
        return max(50, int(min(self.jobs or _ENOUGH[store], _ENOUGH[store]) * scale))

    def kind(self, scenario: str) -> str:
        """Which kind of function a scenario runs: `async` where the peer can."""
        return "async" if self.coroutines and scenario != "sync" else "sync"


_RUNWORKER = ("python", "-m", "django", "runworker", "--concurrency", str(CONCURRENCY))
_STORES = ("sqlite", "postgres", "valkey")

PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            name=REFERENCE,
            requires=("-e", f"{ROOT}[valkey]", *_DJANGO),
            package="django-vtasks",
            module="vtasks_app",
            stores=_STORES,
            worker=_RUNWORKER,
            note="this project, results off",
        ),
        Peer(
            name="vtasks-3.2",
            requires=("django-vtasks[valkey]==3.2.0", *_DJANGO),
            package="django-vtasks",
            module="vtasks_app",
            stores=_STORES,
            worker=_RUNWORKER,
            note="the line before",
        ),
        Peer(
            name="celery",
            requires=("celery[redis]", "hiredis"),
            package="celery",
            module="celery_app",
            stores=("valkey",),
            worker=("celery", "-A", "celery_app:app", "worker", "-P", "threads", "-c", str(THREADS), "-l", "WARNING",
                    "--without-gossip", "--without-mingle", "--without-heartbeat"),
            coroutines=False,
            note=f"{THREADS} threads",
        ),
        Peer(
            name="rq",
            requires=("rq", "hiredis"),
            package="rq",
            module="rq_app",
            stores=("valkey",),
            worker=("rq", "worker", "--url", "{url}", "--logging_level", "WARNING", "--disable-job-desc-logging",
                    "default"),
            coroutines=False,
            jobs=300,
            note="its default worker, which forks for each job",
        ),
        Peer(
            name="dramatiq",
            requires=("dramatiq[redis]", "hiredis"),
            package="dramatiq",
            module="dramatiq_app",
            stores=("valkey",),
            worker=("dramatiq", "dramatiq_app", "-p", "1", "-t", str(THREADS), "--skip-logging"),
            note=f"one process, {THREADS} threads, coroutines by its AsyncIO middleware",
        ),
        Peer(
            name="huey",
            requires=("huey", "redis", "hiredis"),
            package="huey",
            module="huey_app",
            stores=("valkey",),
            worker=("huey_consumer", "huey_app.huey", "-w", str(THREADS), "-k", "thread", "-q", "-n"),
            coroutines=False,
            stop=signal.SIGINT,
            note=f"{THREADS} threads",
        ),
        Peer(
            name="taskiq",
            requires=("taskiq", "taskiq-redis", "uvloop", "hiredis", "orjson"),
            package="taskiq",
            module="taskiq_app",
            stores=("valkey",),
            worker=("taskiq", "worker", "taskiq_app:broker", "-w", "1", "--max-async-tasks", str(CONCURRENCY),
                    "--log-level", "WARNING"),
            note="RedisStreamBroker; one worker process and its supervisor",
        ),
        Peer(
            name="procrastinate",
            requires=("procrastinate", "psycopg[binary,pool]"),
            package="procrastinate",
            module="procrastinate_app",
            stores=("postgres",),
            worker=("procrastinate", "-a", "procrastinate_app.app", "--log-level", "warning", "worker",
                    "-c", str(CONCURRENCY)),
            jobs=1500,
        ),
        Peer(
            name="chancy",
            requires=("chancy[cli]", "psycopg[binary,pool]"),
            package="chancy",
            module="chancy_app",
            stores=("postgres",),
            worker=("chancy", "--app", "chancy_app.chancy", "worker", "start"),
            note="eager polling",
        ),
        Peer(
            name="oban",
            requires=("oban",),
            package="oban",
            module="oban_app",
            stores=("postgres",),
            worker=("oban", "start", "--dsn", "{url}", "--queues", f"default:{CONCURRENCY}", "--log-level", "WARNING",
                    "--cron-modules", "oban_app"),
            note="runs plain functions on its event loop, so `sync` has no threads there",
        ),
    )
}  # fmt: skip
