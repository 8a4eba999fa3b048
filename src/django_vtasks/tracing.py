"""OpenTelemetry traces (extra `otel`): the context travels with the job, every attempt is a span of its own.

Nothing here imports OpenTelemetry unless the process has done so already: a project that does not trace pays nothing.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .jobs.model import Claim

TRACER_NAME = "django_vtasks"


def is_active() -> bool:
    """Whether this process uses OpenTelemetry."""
    return "opentelemetry.trace" in sys.modules


def carrier() -> Mapping[str, str]:
    """The current trace context as text, to travel with a job; empty when nothing is being traced."""
    if not is_active():
        return {}
    from opentelemetry import propagate

    fields: dict[str, str] = {}
    propagate.inject(fields)
    return fields


@contextmanager
def enqueue_span(func: str, queue: str) -> Iterator[None]:
    """The span of one enqueue, around the step in the store."""
    if not is_active():
        yield
        return
    from opentelemetry import trace

    tracer = trace.get_tracer(TRACER_NAME)
    attributes = {"messaging.system": "django_vtasks", "messaging.destination.name": queue, "code.function": func}
    with tracer.start_as_current_span(f"enqueue {func}", kind=trace.SpanKind.PRODUCER, attributes=attributes):
        yield


@contextmanager
def attempt_span(claims: tuple[Claim, ...], worker_id: str) -> Iterator[Any]:
    """The span of one attempt, a child of the enqueue; that of a batch links to each member's enqueue instead.

    An exception that leaves the block is recorded on the span.
    """
    from opentelemetry import propagate, trace

    jobs = [claim.job for claim in claims if claim.job]
    contexts = [propagate.extract(dict(job.trace)) for job in jobs]
    single = contexts[0] if len(contexts) == 1 else None
    links = [] if single else [trace.Link(trace.get_current_span(context).get_span_context()) for context in contexts]
    first = jobs[0]
    attributes: dict[str, str | int | float] = {
        "messaging.system": "django_vtasks",
        "messaging.destination.name": first.queue,
        "messaging.message.id": first.id if single else "",
        "messaging.batch.message_count": len(jobs),
        "messaging.client.id": worker_id,
        "code.function": first.func,
        "vtasks.attempt": first.starts + 1,
        "vtasks.wait_seconds": max(0.0, claims[0].started_at - max(first.enqueued_at, first.run_after or 0.0)),
    }
    tracer = trace.get_tracer(TRACER_NAME)
    with tracer.start_as_current_span(
        f"run {first.func}", context=single, kind=trace.SpanKind.CONSUMER, attributes=attributes, links=links
    ) as span:
        yield span
