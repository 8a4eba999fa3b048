"""Hearing of the ends of jobs: a list of our own, to which whoever ends a job that we wait for pushes its id."""

import os
from collections.abc import Awaitable, Callable

from ...jobs.errors import StoreRefused
from ..base.ends import EarThread, Ends
from .locate import Link
from .requests import Command, Part, Request, call
from .sync_client import SyncClient

BLOCK = 1.0
"""Seconds that one look at the list may take."""

MARGIN = 2.0
"""Seconds beyond the block after which a server that does not answer counts as gone."""

KEPT = 60.0
"""Seconds that our name stays with a job; a look in between renews it."""

AT_ONCE = 500


class ValkeyEars(EarThread):
    """See `Ears`. Listening costs one call for each look of each waiter, and one connection for all of them."""

    def __init__(
        self,
        ends: Ends,
        link: Link,
        prefix: str,
        send: Callable[[Request], object],
        asend: Callable[[Request], Awaitable[object]],
    ) -> None:
        super().__init__(ends)
        self._link = link.with_read_timeout(BLOCK + MARGIN)
        self._name = os.urandom(8).hex()
        self._list = f"{prefix}ended:{self._name}"
        self._send = send
        self._asend = asend

    def listen_for(self, job_id: str) -> bool:
        """See `Ears`."""
        try:
            self._send(self._request(job_id))
        except StoreRefused:
            return False
        return self.start()

    async def alisten_for(self, job_id: str) -> bool:
        """See `Ears`."""
        try:
            await self._asend(self._request(job_id))
        except StoreRefused:
            return False
        return self.start()

    def hear(self) -> None:
        """See `EarThread`."""
        client = SyncClient(self._link)
        try:
            while self.ends:
                first = client.send(Command(("BLPOP", self._list, BLOCK), again=False))
                self.hears = True
                if first is None:
                    continue
                self.ends.tell(first[1].decode())
                for job_id in client.send(Command(("LPOP", self._list, AT_ONCE), again=False)) or ():
                    self.ends.tell(job_id.decode())
        finally:
            client.close()

    def _request(self, job_id: str) -> Request:
        now: Part = ""
        return call("wait", now, job_id, self._name, int(KEPT * 1000))
