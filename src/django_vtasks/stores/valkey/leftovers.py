"""Jobs that dead workers of the 3.2 line had in flight: lists `processing:<id>` without a live `alive:<id>`."""

from ...jobs.model import Claim
from .claims import adopted_claim
from .keys import Keys, pattern
from .requests import Command, Plan

STEPS = 20
"""Calls of SCAN in one look, so that a large database is walked through in several."""


class Leftovers:
    """Remembers where the walk through the keys stands, and whose lists it has met."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._start = keys.processing("")
        self._cursor = b"0"
        self._workers: set[str] = set()

    def find(self, limit: int, now: float) -> Plan[tuple[Claim, ...]]:
        """Up to `limit` claims on what dead workers had; nothing is changed."""
        yield from self._walk()
        claims: list[Claim] = []
        for worker_id in sorted(self._workers):
            if (yield Command(("EXISTS", self._keys.alive(worker_id)))):
                continue
            left = limit - len(claims)
            if left <= 0:
                break
            # The oldest is the last of the list.
            payloads = (yield Command(("LRANGE", self._keys.processing(worker_id), -left, -1)))[::-1]
            claims += [adopted_claim(worker_id, position, raw, now) for position, raw in enumerate(payloads)]
            if not payloads:
                self._workers.discard(worker_id)
        return tuple(claims)

    def _walk(self) -> Plan[None]:
        for _ in range(STEPS):
            self._cursor, found = yield Command(("SCAN", self._cursor, "MATCH", pattern(self._start), "COUNT", 1000))
            self._workers |= {key.decode().removeprefix(self._start) for key in found}
            if self._cursor == b"0":
                return
