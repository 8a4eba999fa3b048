"""How a batch function tells its members apart. Loads nothing, since modules of tasks import it."""

from collections.abc import Mapping
from typing import Any

type Member = str | Mapping[str, Any]
"""A member of a batch: its id, or the dict that the function got for it."""


class BatchResult:
    """What a batch function may return to tell its members apart. A member it does not mention succeeded.

    `failed` maps ids to what a task could have raised for the member: an exception, or Retry, Snooze or Discard.
    """

    def __init__(
        self, *, values: Mapping[str, Any] | None = None, failed: Mapping[str, BaseException] | None = None
    ) -> None:
        self.values: dict[str, Any] = dict(values or {})
        self.failed: dict[str, BaseException] = {}
        for member, error in (failed or {}).items():
            self.fail(member, error)

    def succeed(self, member: Member, value: Any = None) -> None:
        """The member is done, with this return value."""
        self.failed.pop(_id(member), None)
        self.values[_id(member)] = value

    def fail(self, member: Member, error: BaseException) -> None:
        """The member failed, or is to be retried, snoozed or discarded. Raises TypeError for what is no exception."""
        if not isinstance(error, BaseException):
            raise TypeError(f"a member fails with an exception, not with a {type(error).__name__}")
        self.values.pop(_id(member), None)
        self.failed[_id(member)] = error


class MemberFailed(Exception):
    """Raise it in a batch function when some members failed and all others are done; `failed` as in BatchResult."""

    def __init__(self, failed: Mapping[str, BaseException]) -> None:
        self.result = BatchResult(failed=failed)
        super().__init__(f"{len(self.result.failed)} members of the batch failed")


def _id(member: Member) -> str:
    return member if isinstance(member, str) else str(member["id"])
