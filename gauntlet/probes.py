"""What the probes of the workers say, all the time: their `/readyz`, asked four times a second from a thread."""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass

from gauntlet.fleet import Worker

EVERY = 0.25


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer. `ready` and `healthy` are None when nobody answered; `at` is when it was asked (monotonic clock)."""

    at: float
    worker: Worker
    ready: bool | None
    healthy: bool | None


class Probes:
    """Asks the workers that are told to it, as long as they run, and keeps the answers."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._workers: list[Worker] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    def watch(self, worker: Worker) -> None:
        """Ask this worker too."""
        self._workers.append(worker)
        if not self._thread.ident:
            self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()
        if self._thread.ident:
            self._thread.join(10)

    def of(self, worker: Worker, since: float = 0.0, until: float = float("inf")) -> list[Sample]:
        """The answers of a worker to what was asked in a span of time."""
        return [s for s in list(self.samples) if s.worker is worker and since <= s.at < until]

    def _run(self) -> None:
        while not self._stop.wait(EVERY):
            for worker in list(self._workers):
                if worker.exit_code is None:
                    self.samples.append(_asked(worker))


def _asked(worker: Worker) -> Sample:
    at = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", worker.health_port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        report = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return Sample(at, worker, None, None)
    finally:
        connection.close()
    return Sample(at, worker, report["ready"], report["healthy"])
