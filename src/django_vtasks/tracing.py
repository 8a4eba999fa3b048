"""OpenTelemetry traces (extra `otel`): the context travels with the job, every wait and every attempt is a span.

Nothing here imports OpenTelemetry unless the process has done so already: a project that does not trace pays nothing,
and its payloads say nothing of traces.
"""

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .jobs.errors import ControlFlow
from .jobs.model import Claim, Job, ready_since
from .tasks.redaction import hiding, redaction_of

TRACER_NAME = "django_vtasks"

type Attributes = dict[str, str | int | float]


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
def enqueue_span(jobs: Sequence[Job]) -> Iterator[Mapping[str, str]]:
    """The span of one enqueue, of one job or many; gives the context that is to travel with them."""
    if not is_active():
        yield {}
        return
    from opentelemetry import trace

    funcs = sorted({job.func for job in jobs})
    queues = sorted({job.queue for job in jobs})
    attributes: Attributes = {
        "messaging.system": "django_vtasks",
        "messaging.operation.type": "send",
        "messaging.destination.name": ", ".join(queues),
        "code.function": ", ".join(funcs),
    }
    if len(jobs) == 1:
        attributes["messaging.message.id"] = jobs[0].id
    else:
        attributes["messaging.batch.message_count"] = len(jobs)
    name = f"enqueue {funcs[0] if len(funcs) == 1 else 'jobs'}"
    tracer = trace.get_tracer(TRACER_NAME)
    with tracer.start_as_current_span(name, kind=trace.SpanKind.PRODUCER, attributes=attributes):
        yield carrier()


@contextmanager
def attempt_span(claims: tuple[Claim, ...], worker_id: str) -> Iterator[Any]:
    """The span of one attempt, a child of the enqueue; that of a batch links to each member's enqueue instead.

    How long each job waited is a span of its own before it. An exception that leaves the block is recorded on the
    span, and is an error unless it says what is to become of the job.
    """
    from opentelemetry import context, propagate, trace

    jobs = [claim.job for claim in claims if claim.job]
    # Nothing of the context in which the worker happened to be started belongs to its jobs.
    contexts = [propagate.extract(dict(job.trace), context.Context()) for job in jobs]
    tracer = trace.get_tracer(TRACER_NAME)
    for claim, travelled in zip(claims, contexts, strict=True):
        _wait_span(tracer, claim, travelled)
    single = len(contexts) == 1
    token = context.attach(contexts[0] if single else context.Context())
    try:
        with tracer.start_as_current_span(
            f"run {jobs[0].func}",
            kind=trace.SpanKind.CONSUMER,
            attributes=_attributes(jobs, worker_id),
            links=[] if single else [_link(travelled) for travelled in contexts],
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield from _observed(span, jobs)
    finally:
        context.detach(token)


def _observed(span: Any, jobs: Sequence[Job]) -> Iterator[Any]:
    from opentelemetry import trace

    try:
        yield span
    except ControlFlow as wish:
        span.set_attribute("vtasks.outcome", type(wish).__name__.lower())
        raise
    except BaseException as error:
        span.set_attribute("vtasks.outcome", "raised")
        span.record_exception(error, attributes=_told(error, jobs))
        span.set_status(trace.Status(trace.StatusCode.ERROR, type(error).__name__))
        raise
    else:
        span.set_attribute("vtasks.outcome", "returned")


def _told(error: BaseException, jobs: Sequence[Job]) -> Mapping[str, str]:
    """Message and stack of an exception without what is hidden of the jobs' arguments."""
    hide = hiding(redaction_of(jobs[0]), ((job.args, job.kwargs) for job in jobs))
    stack = "".join(traceback.format_exception(error))
    return {"exception.message": hide(str(error)), "exception.stacktrace": hide(stack)}


def _link(travelled: Any) -> Any:
    from opentelemetry import trace

    return trace.Link(trace.get_current_span(travelled).get_span_context())


def _attributes(jobs: Sequence[Job], worker_id: str) -> Attributes:
    first = jobs[0]
    attributes: Attributes = {
        "messaging.system": "django_vtasks",
        "messaging.operation.type": "process",
        "messaging.destination.name": first.queue,
        "messaging.client.id": worker_id,
        "code.function": first.func,
    }
    if len(jobs) == 1:
        return attributes | {"messaging.message.id": first.id, "vtasks.attempt": first.starts + 1}
    return attributes | {"messaging.batch.message_count": len(jobs)}


def _wait_span(tracer: Any, claim: Claim, context: Any) -> None:
    """The time from when the job could run to when it did; nothing for a job that nobody traces."""
    from opentelemetry import trace

    job = claim.job
    if job is None or not trace.get_current_span(context).get_span_context().is_valid:
        return
    attributes: Attributes = {"messaging.destination.name": job.queue, "messaging.message.id": job.id}
    span = tracer.start_span(
        f"wait {job.func}",
        context=context,
        attributes=attributes,
        start_time=_nanoseconds(min(ready_since(job), claim.started_at)),
    )
    span.end(_nanoseconds(claim.started_at))


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)
