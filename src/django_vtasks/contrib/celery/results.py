"""Celery's AsyncResult over the result of a job."""

from datetime import datetime
from typing import Any, NoReturn

from ...framework import TaskError, TaskResultDoesNotExist, TaskResultStatus, task_backends
from ...jobs.model import JobState
from ...stores.base import CancelStatus

PENDING, STARTED, RETRY, SUCCESS, FAILURE, REVOKED = "PENDING", "STARTED", "RETRY", "SUCCESS", "FAILURE", "REVOKED"

_CANCELLED = "JobCancelled"


class AsyncResult:
    """The result of a job by its id, read anew with every question. An unknown id is pending, as it is in Celery.

    `alias` is the TASKS alias of the job.
    """

    def __init__(self, id: str, *, alias: str = "default") -> None:  # noqa: A002 - Celery's name
        self.id = id
        self.alias = alias

    def __repr__(self) -> str:
        return f"<AsyncResult: {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncResult) and (self.id, self.alias) == (other.id, other.alias)

    def __hash__(self) -> int:
        return hash((self.id, self.alias))

    @property
    def task_id(self) -> str:
        """The id."""
        return self.id

    @property
    def task_result(self) -> Any:
        """The framework's TaskResult, which knows more. Raises TaskResultDoesNotExist."""
        return task_backends[self.alias].get_result(self.id)

    @property
    def state(self) -> str:
        """Celery's state: PENDING, STARTED (or what `update_state` said), RETRY, SUCCESS, FAILURE or REVOKED."""
        found = self._found()
        return PENDING if found is None else _state_of(found)

    status = state

    @property
    def result(self) -> Any:
        """The return value of a job that succeeded, the error text of one that failed, what `update_state` said."""
        found = self._found()
        if found is None:
            return None
        if found.status == TaskResultStatus.SUCCESSFUL:
            return found.return_value
        if found.status == TaskResultStatus.FAILED:
            return _error_text(found)
        return _said(found).get("meta")

    info = result

    @property
    def traceback(self) -> str | None:
        """The traceback of the last failed attempt."""
        found = self._found()
        return found.errors[-1].traceback if found is not None and found.errors else None

    @property
    def date_done(self) -> datetime | None:
        """When the job was over."""
        found = self._found()
        return None if found is None else found.finished_at

    def ready(self) -> bool:
        """Whether the job is over."""
        found = self._found()
        return found is not None and found.is_finished

    def successful(self) -> bool:
        """Whether it succeeded."""
        return self.state == SUCCESS

    def failed(self) -> bool:
        """Whether it failed."""
        return self.state == FAILURE

    def get(self, timeout: float | None = None, *, propagate: bool = True, **_others: Any) -> Any:
        """Wait for the end and return the value; with `propagate`, raise the error of a job that failed.

        Raises TimeoutError after `timeout` seconds, TaskResultDoesNotExist for a job that nothing is known of.
        """
        found = self.task_result.wait_sync(timeout)
        if found.status == TaskResultStatus.SUCCESSFUL:
            return found.return_value
        if propagate:
            raise _error(found)
        return _error_text(found)

    wait = get

    def revoke(self, *, terminate: bool = False, **_others: Any) -> CancelStatus:  # noqa: ARG002 - Celery's name
        """Cancel the job; one that runs is told, with or without `terminate`."""
        return task_backends[self.alias].cancel(self.id)  # type: ignore[attr-defined,no-any-return]

    def forget(self) -> None:
        """Does nothing: results go by themselves, after `VTASKS_RESULT_TTL` seconds."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"AsyncResult.{name} is not of this shim; `.task_result` is the framework's result")

    def _found(self) -> Any:
        try:
            return self.task_result
        except TaskResultDoesNotExist:
            return None


def _state_of(found: Any) -> str:
    if found.status == TaskResultStatus.SUCCESSFUL:
        return SUCCESS
    if found.status == TaskResultStatus.FAILED:
        return REVOKED if _is_cancelled(found) else FAILURE
    if found.status == TaskResultStatus.RUNNING:
        return str(_said(found).get("state") or STARTED)
    return RETRY if found.errors and found.state is JobState.SCHEDULED else PENDING


def _is_cancelled(found: Any) -> bool:
    return bool(found.errors) and found.errors[-1].exception_class_path.endswith(f".{_CANCELLED}")


def _said(found: Any) -> dict[str, Any]:
    said: dict[str, Any] = (found.metadata or {}).get("celery") or {}
    return said


def _error_text(found: Any) -> str:
    if not found.errors:
        return "failed"
    last: TaskError = found.errors[-1]
    lines = last.traceback.strip().splitlines()
    return lines[-1] if lines else last.exception_class_path


def _error(found: Any) -> BaseException:
    """The exception of the last attempt, made from its class and its text."""
    text = _error_text(found)
    message = text.partition(": ")[2] or text
    try:
        error: BaseException = found.errors[-1].exception_class(message)
    except Exception:
        # No class of this code, or one whose constructor wants something else.
        return RuntimeError(text)
    return error
