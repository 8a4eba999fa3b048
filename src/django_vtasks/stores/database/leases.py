"""Metadata rows with an expiry: the leases of incarnations, what they say of themselves, and roles."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from ..base import WorkerInfo
from .names import ALIVE, METADATA, PAUSED, WORKER, metadata_key, role_key
from .rows import ascii_json
from .session import Session


def extend(session: Session, owner: str, seconds: float) -> bool:
    """Renew the lease of an incarnation; False when there was no live one."""
    key, until = metadata_key(ALIVE, owner), session.moment.later(seconds)
    if session.run(f"{_RENEW} AND expires_at > {{now}}", (until, key)):
        return True
    if not session.run(_RENEW, (until, key)):
        session.run(_INSERT, (key, owner, until))
    return False


_RENEW = f"UPDATE {METADATA} SET expires_at = {{later}} WHERE {{key}} = %s"
_INSERT = f"INSERT INTO {METADATA} ({{key}}, value, expires_at) VALUES (%s, %s, {{later}}) {{ignore_key}}"


def release(session: Session, owner: str) -> None:
    """End the lease of an incarnation and what it said of itself."""
    keys = (metadata_key(ALIVE, owner), metadata_key(WORKER, owner))
    session.run(f"DELETE FROM {METADATA} WHERE {{key}} IN (%s, %s)", keys)


def hold(session: Session, role: str, owner: str, seconds: float) -> bool:
    """Take or renew a role, the 3.2 line's way; False while somebody else has it."""
    key, until = role_key(role), session.moment.later(seconds)
    if session.vendor.has_conditional_upsert:
        return session.run(_HOLD, (key, owner, until)) > 0
    taken = session.run(
        f"UPDATE {METADATA} SET value = %s, expires_at = {{later}}"
        f" WHERE {{key}} = %s AND (value = %s OR expires_at <= {{now}} OR expires_at IS NULL)",
        (owner, until, key, owner),
    )
    if taken:
        return True
    session.run(_INSERT, (key, owner, until))
    row = session.row(f"SELECT value FROM {METADATA} WHERE {{key}} = %s", (key,))
    return row is not None and row[0] == owner


_HOLD = (
    f"INSERT INTO {METADATA} ({{key}}, value, expires_at) VALUES (%s, %s, {{later}})"
    " {or_value}, expires_at = excluded.expires_at WHERE"
    f" {METADATA}.value = excluded.value OR {METADATA}.expires_at <= {{now}} OR {METADATA}.expires_at IS NULL"
)


def paused(session: Session) -> list[str]:
    """The queues that are paused."""
    rows = session.rows(f"SELECT value FROM {METADATA} WHERE {{key}} LIKE %s", (like(PAUSED),))
    return [paused_queue(row[0]) for row in rows]


def paused_queue(value: str) -> str:
    """The queue that a row says is paused."""
    return str(json.loads(value))


def pause(session: Session, queue: str) -> None:
    """Pause a queue."""
    put(session, metadata_key(PAUSED, queue), ascii_json(queue))


def announce(session: Session, info: WorkerInfo) -> None:
    """Write down what a worker says of itself."""
    data = ascii_json({**asdict(info), "seen_at": None})
    put(session, metadata_key(WORKER, info.incarnation), data, expiry=True)


def put(session: Session, key: str, value: str, *, expiry: bool = False) -> None:
    """Write a metadata row; with `expiry` its `expires_at` says when that was."""
    moment = "{now}" if expiry else "NULL"
    insert = f"INSERT INTO {METADATA} ({{key}}, value, expires_at) VALUES (%s, %s, {moment})"
    session.run(f"{insert} {{or_value}}, expires_at = {moment}", (key, value))


def live_workers(session: Session) -> list[WorkerInfo]:
    """What incarnations with a live lease say of themselves, by id."""
    vendor = session.vendor
    seen = vendor.epoch_column("expires_at")
    rows = session.rows(f"SELECT value, {seen} FROM {METADATA} WHERE {{key}} LIKE %s", (like(WORKER),))
    alive = session.rows(
        f"SELECT value FROM {METADATA} WHERE {{key}} LIKE %s AND expires_at > {{now}}", (like(ALIVE),)
    )
    live = {row[0] for row in alive}
    infos = [_info(value, vendor.epoch_out(at) or 0.0) for value, at in rows]
    return sorted((info for info in infos if info.incarnation in live), key=lambda info: info.incarnation)


def like(prefix: str) -> str:
    """The pattern of all keys with a prefix."""
    # The underscore stands for any character, which costs nothing among these keys and saves an escape per vendor.
    return f"{prefix}%"


def _info(value: str, seen_at: float) -> WorkerInfo:
    parts: dict[str, Any] = json.loads(value)
    queues: Sequence[str] = parts.pop("queues")
    return replace(WorkerInfo(**parts, queues=tuple(queues)), seen_at=seen_at)
