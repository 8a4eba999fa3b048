"""What makes two calls the same, and for how long: one value behind the four arguments of the 3.2 line."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ..jobs import keys
from ..jobs.model import Unique as UniqueKey
from ..jobs.model import UniqueMode
from ..jobs.uniqueness import derive_key

type Seconds = float | timedelta


def seconds(value: Seconds) -> float:
    """A duration in seconds. Raises TypeError for what is none."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a duration is a number of seconds or a timedelta, not {value!r}")
    return float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """A rule for duplicates. While a job has the key, another call with the same key is not enqueued.

    The key comes from all arguments when None; else it is fixed text, a format of the arguments
    (`"order:{order_id}"`), or a function that is called with them and returns text. Durations are seconds or
    timedeltas. Make it with one of the class methods.
    """

    mode: UniqueMode = UniqueMode.UNTIL_DONE
    key: keys.Key | None = None
    window: float | None = None
    delay: float | None = None

    @classmethod
    def until_done(cls, key: keys.Key | None = None) -> "Unique":
        """The key is taken until the job succeeds or fails for good, through retries and crashes."""
        return cls(key=key)

    @classmethod
    def until_started(cls, key: keys.Key | None = None) -> "Unique":
        """The key is taken until the job first starts; a call made while it runs waits as the next one."""
        return cls(mode=UniqueMode.UNTIL_STARTED, key=key)

    @classmethod
    def once_per(cls, window: Seconds, key: keys.Key | None = None) -> "Unique":
        """At most one job per window, counted from its enqueue and whatever becomes of it."""
        return cls(mode=UniqueMode.WINDOW, key=key, window=seconds(window))

    @classmethod
    def debounce(cls, delay: Seconds, key: keys.Key | None = None, *, max_wait: Seconds | None = None) -> "Unique":
        """The job runs `delay` after the last call, with its arguments, but at most `max_wait` after the first.

        Give a key: derived from all arguments, it would not let a call replace one with other arguments.
        """
        latest = None if max_wait is None else seconds(max_wait)
        return cls(mode=UniqueMode.DEBOUNCE, key=key, window=latest, delay=seconds(delay))

    def problem(self, function: Callable[..., Any]) -> str | None:
        """What is wrong with the rule for this function, None when nothing is."""
        if self.mode is UniqueMode.WINDOW and self.window is None:
            return (
                "a throttle (remove_unique_on_complete=False) needs its window: give ttl= in seconds, or "
                "unique=Unique.once_per(seconds)"
            )
        for name, value in (("window", self.window), ("delay", self.delay)):
            if value is not None and not 0 < value < float("inf"):
                return f"the {name} of a unique rule must be a positive number of seconds, not {value!r}"
        if self.key is None:
            return None
        key: object = self.key
        if not isinstance(key, str) and not callable(key):
            return f"a unique key must be text, a format of the arguments or a function, not {self.key!r}"
        try:
            keys.check_key(self.key, function)
        except keys.KeyFormatError as error:
            return str(error)
        return None

    def of_call(
        self,
        function: Callable[..., Any],
        path: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        leading: int = 0,
    ) -> UniqueKey:
        """The key of one call with arguments in JSON form; `leading` as in `keys.evaluate`."""
        if self.key is None:
            text = keys.shortened(derive_key(path, args, kwargs))
        else:
            text = keys.evaluate(self.key, function, args, kwargs, leading=leading)
        return UniqueKey(key=text, mode=self.mode, window=self.window)
