"""Reads a project's settings and asks its stores, and says what would not work and what to do."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseProblem

from ..backends.base import VTasksBaseBackend
from ..conf import DEFAULTS, queue_names, settings
from ..framework import InvalidTaskBackend, task_backends
from ..jobs.errors import QueueError, StoreRefused, StoreUnavailable
from ..scheduling.overview import Standing
from .agenda import agenda_of
from .aliases import Alias
from .overview import Overview, overview_of

ERROR, WARNING, HINT = "error", "warning", "hint"
SEVERITIES = (ERROR, WARNING, HINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong: `error` does not work, `warning` will hurt one day, `hint` costs. `alias` is None for
    what is wrong with the project as a whole."""

    severity: str
    text: str
    hint: str = ""
    alias: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """One alias of TASKS: where its jobs are, what its server is, and what is wrong."""

    alias: str
    location: str
    facts: dict[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Everything that was found, the project's own findings first."""

    project: tuple[Finding, ...]
    patients: tuple[Patient, ...]

    @property
    def findings(self) -> list[Finding]:
        """Every finding, the worst first."""
        found = [*self.project, *(finding for patient in self.patients for finding in patient.findings)]
        return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong that does not work."""
        return all(finding.severity != ERROR for finding in self.findings)


def diagnose(alias: str | None = None) -> Diagnosis:
    """Look at the settings and at one alias or all. Raises nothing for what is wrong with either."""
    names = list(task_backends) if alias is None else [alias]
    project = [*_checks(), *_environment(), *_modules()]
    return Diagnosis(project=tuple(project), patients=tuple(_examined(name) for name in names))


# -- the project ------------------------------------------------------------------------------------------------------


def _checks() -> Iterator[Finding]:
    """The system checks of the settings."""
    try:
        messages = checks.run_checks(tags=["vtasks"])
    except Exception as error:
        yield Finding(severity=ERROR, text=f"The system checks break: {error!r}.", hint="See manage.py check.")
    else:
        yield from map(_from_check, messages)


def _from_check(message: checks.CheckMessage, alias: str | None = None) -> Finding:
    severity = ERROR if message.level >= checks.ERROR else WARNING
    return Finding(severity=severity, alias=alias, text=f"{message.msg} ({message.id})", hint=message.hint or "")


def _environment() -> Iterator[Finding]:
    """Variables that look like settings and are none."""
    for name in sorted(os.environ):
        if name.startswith("VTASKS_") and name not in DEFAULTS:
            text = f"The environment variable {name} has no effect: there is no such setting."
            yield Finding(severity=WARNING, text=text, hint="Correct its name, or remove it.")


def _modules() -> Iterator[Finding]:
    """Libraries that the settings need."""
    from .. import metrics

    if settings.VTASKS_METRICS_PORT and not metrics.HAS_METRICS:
        yield Finding(
            severity=ERROR,
            text="VTASKS_METRICS_PORT is set, but prometheus-client is not installed.",
            hint="pip install 'django-vtasks[metrics]'.",
        )


# -- one alias --------------------------------------------------------------------------------------------------------


def _examined(name: str) -> Patient:
    try:
        backend = task_backends[name]
    except (InvalidTaskBackend, ImproperlyConfigured, ImportError) as error:
        wrong = Finding(severity=ERROR, alias=name, text=f"The backend cannot be made: {error}.", hint="See TASKS.")
        return Patient(alias=name, location="?", findings=(wrong,))
    if not isinstance(backend, VTasksBaseBackend):
        path = f"{type(backend).__module__}.{type(backend).__qualname__}"
        return Patient(alias=name, location=f"{path}, not of this package")
    entry = tuple(_from_check(message, name) for message in backend.check())
    if any(finding.severity == ERROR for finding in entry):
        return Patient(alias=name, location=type(backend).__name__, findings=entry)
    try:
        location = backend.location
        facts, found = _in_store(Alias(name=name, backend=backend))
    except (QueueError, DatabaseProblem, ImproperlyConfigured) as error:
        return Patient(alias=name, location=type(backend).__name__, findings=(*entry, _out_of_reach(name, error)))
    return Patient(alias=name, location=location, facts=facts, findings=(*entry, *found))


def _out_of_reach(alias: str, error: Exception) -> Finding:
    said = str(error).rstrip(".")
    if isinstance(error, StoreUnavailable | DatabaseProblem):
        hint = "Is the server running, and are host, port and password right?"
        return Finding(severity=ERROR, alias=alias, text=f"The store cannot be reached: {said}.", hint=hint)
    what = "The store refuses" if isinstance(error, StoreRefused) else "The settings of the store are wrong"
    return Finding(severity=ERROR, alias=alias, text=f"{what}: {said}.")


def _in_store(alias: Alias) -> tuple[dict[str, str], list[Finding]]:
    try:
        store = alias.admin
    except NotImplementedError:
        text = "Jobs run where they are enqueued and nothing is kept: this backend is for tests."
        return {}, [Finding(severity=WARNING, alias=alias.name, text=text, hint="Use another one in production.")]
    examination = alias.backend.examine()
    found = [
        Finding(severity=one.severity, alias=alias.name, text=one.text, hint=one.hint) for one in examination.symptoms
    ]
    if any(finding.severity == ERROR for finding in found):
        # What the store itself would say now follows from what is wrong with its server.
        return dict(examination.facts), found
    store.counts()
    seen = overview_of(alias)
    return dict(examination.facts), [*found, *_queues(alias, seen), *_schedule(alias)]


def _queues(alias: Alias, seen: Overview) -> Iterator[Finding]:
    for finding in seen.findings:
        if finding.severity in (ERROR, WARNING):
            yield Finding(severity=finding.severity, alias=alias.name, text=finding.text, hint=finding.hint)
    waiting = {view.counts.queue for view in seen.queues if view.counts.ready or view.counts.scheduled}
    served = {queue for worker in seen.workers for queue in worker.info.queues}
    if not seen.workers:
        text = "No worker of this alias is running."
        yield Finding(severity=WARNING, alias=alias.name, text=text, hint=f"Start one: {_start(alias.name)}")
    default = queue_names()
    for queue in sorted(alias.configured_queues() - served - waiting):
        if queue not in default:
            text = f"The queue {queue!r} is accepted, but a worker serves it only if it is told to."
            hint = f"Add it to VTASKS_QUEUES, or start {_start(alias.name)} --queue {queue}"
            yield Finding(severity=WARNING, alias=alias.name, text=text, hint=hint)
        elif seen.workers:
            text = f"No live worker serves the queue {queue!r} of VTASKS_QUEUES."
            yield Finding(severity=WARNING, alias=alias.name, text=text, hint=f"{_start(alias.name)} --queue {queue}")


def _start(alias: str) -> str:
    command = "manage.py runworker"
    return command if alias == settings.VTASKS_BACKEND else f"{command} --backend {alias}"


def _schedule(alias: Alias) -> Iterator[Finding]:
    if alias.name != settings.VTASKS_BACKEND:
        return
    for view in agenda_of(alias, now=time.time()):
        if view.standing in (Standing.NEW, Standing.OVERDUE):
            text = f"The schedule entry {view.name!r} is not fired: {view.why}."
            yield Finding(severity=WARNING, alias=alias.name, text=text, hint="Start a worker with --scheduler.")
