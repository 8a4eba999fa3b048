"""Where the process traces, the span of an enqueue goes along with its jobs."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ..jobs.model import evolve_job

if TYPE_CHECKING:
    from .enqueuing import Entry


def is_traced() -> bool:
    """Whether this process uses OpenTelemetry, asked without loading anything."""
    return "opentelemetry.trace" in sys.modules


@contextmanager
def traced(entries: "Sequence[Entry]") -> "Iterator[Sequence[Entry]]":
    """The entries with the context of the enqueue's span, as long as that lasts; as they are when nobody listens."""
    from ..tracing import enqueue_span

    if not entries:
        yield entries
        return
    with enqueue_span([entry.job for entry in entries]) as carrier:
        yield [replace(entry, job=evolve_job(entry.job, trace=carrier)) for entry in entries] if carrier else entries
