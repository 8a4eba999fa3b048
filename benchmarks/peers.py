"""Who is measured, and how their workers start."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DJANGO = ("django>=6.1,<6.2", "psycopg[binary,pool]", "uvloop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One product: what to install, which module of `apps` to use, on which stores, and its worker's command."""

    name: str
    requires: tuple[str, ...]
    module: str
    stores: tuple[str, ...]
    worker: tuple[str, ...]
    scenarios: tuple[str, ...] = ("enqueue", "async", "sync")


_RUNWORKER = ("python", "-m", "django", "runworker", "--concurrency", "100")
_EVERY_STORE = ("sqlite", "postgres", "valkey")

PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            name="ours",
            requires=("-e", f"{ROOT}[valkey]", *DJANGO),
            module="vtasks_app",
            stores=_EVERY_STORE,
            worker=_RUNWORKER,
        ),
        Peer(
            name="vtasks-3.2",
            requires=("django-vtasks[valkey]==3.2.0", *DJANGO),
            module="vtasks_app",
            stores=_EVERY_STORE,
            worker=_RUNWORKER,
        ),
        Peer(
            name="celery",
            requires=("celery[redis]", "hiredis"),
            module="celery_app",
            stores=("valkey",),
            worker=("celery", "-A", "celery_app:app", "worker", "-P", "threads", "-c", "20", "-l", "WARNING",
                    "--without-gossip", "--without-mingle", "--without-heartbeat"),
            scenarios=("enqueue", "sync"),
        ),
        Peer(
            name="procrastinate",
            requires=("procrastinate", "psycopg[binary,pool]"),
            module="procrastinate_app",
            stores=("postgres",),
            worker=("procrastinate", "-a", "procrastinate_app.app", "--log-level", "warning", "worker", "-c", "100"),
        ),
    )
}  # fmt: skip
