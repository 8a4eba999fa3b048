"""An exception as text that every store can keep, whatever the exception does."""

from __future__ import annotations

import pytest

from django_vtasks.execution.failures import MESSAGE_LIMIT, TRACEBACK_LIMIT, clean, describe, shorten


def caught(function, *args):
    try:
        function(*args)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def fail(message="no"):
    raise ValueError(message)


def fail_elsewhere():
    raise ValueError("no")


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("I do not speak")


class Worse(Exception):
    def __str__(self):
        return None  # noqa: PLE0307 - what broken code does

    def __repr__(self):
        raise SystemError


class Leaving(Exception):
    def __str__(self):
        raise SystemExit(3)


class Interrupting(BaseException):
    def __str__(self):
        raise KeyboardInterrupt


def storable(failure):
    text = "".join((failure.exception_class, failure.message, failure.traceback, failure.fingerprint))
    text.encode("utf-8")
    assert "\x00" not in text


def test_an_exception_becomes_class_message_and_traceback():
    failure = describe(caught(fail), "app.tasks.run")
    assert failure.exception_class == "builtins.ValueError"
    assert failure.message == "no"
    assert failure.traceback.startswith("Traceback (most recent call last):\n")
    assert failure.traceback.endswith("ValueError: no\n")
    storable(failure)


@pytest.mark.parametrize("message", ["a\x00b", "\ud800 alone", "\x00\udfff" * 10, "ä€😀"])
def test_text_that_stores_refuse_is_escaped(message):
    failure = describe(caught(fail, message), "app.run")
    storable(failure)
    assert failure.message == clean(message)
    assert clean("a\x00b \ud800") == "a\\x00b \\ud800"
    assert clean("ä€😀") == "ä€😀"


def test_an_enormous_message_keeps_both_ends():
    failure = describe(caught(fail, "begin" + "x" * 5_000_000 + "end"), "app.run")
    assert len(failure.message) < MESSAGE_LIMIT + 100
    assert len(failure.traceback) < TRACEBACK_LIMIT + 100
    assert failure.message.startswith("begin")
    assert failure.message.endswith("end")
    assert failure.traceback.startswith("Traceback")
    assert failure.traceback.endswith("end\n")
    assert "characters left out" in failure.traceback


def test_the_shortened_text_says_how_much_is_missing():
    assert shorten("abcdefgh", 8) == "abcdefgh"
    assert shorten("abcdefghi", 4) == "ab\n[... 5 characters left out ...]\nhi"


@pytest.mark.parametrize("kind", [Unprintable, Worse, Leaving, Interrupting])
def test_an_exception_that_cannot_be_printed_is_described(kind):
    def raising():
        raise kind

    failure = describe(caught(raising), "app.run")
    assert failure.exception_class.endswith(kind.__name__)
    assert failure.message.startswith("<str() of the exception raised")
    assert kind.__name__ in failure.traceback
    storable(failure)


def test_an_exception_group_shows_its_members():
    def raising():
        raise ExceptionGroup("several", [caught(fail, "first"), caught(fail, "second")])

    failure = describe(caught(raising), "app.run")
    assert "several" in failure.message
    assert "ValueError: first" in failure.traceback
    assert "ValueError: second" in failure.traceback


def test_a_cause_is_shown():
    def raising():
        try:
            fail("deeper")
        except ValueError as error:
            raise LookupError("above") from error

    text = describe(caught(raising), "app.run").traceback
    assert text.index("ValueError: deeper") < text.index("LookupError: above")


def test_an_exception_that_was_not_raised_has_a_failure_too():
    failure = describe(ValueError("x"), "app.run")
    assert failure.message == "x"
    assert failure.fingerprint == "app.run:builtins.ValueError"
    assert failure.traceback == "ValueError: x\n"


def test_the_fingerprint_groups_by_task_class_and_raising_line():
    first, again = describe(caught(fail, "one"), "app.run"), describe(caught(fail, "two"), "app.run")
    assert first.fingerprint == again.fingerprint
    others = [
        describe(caught(fail), "app.other"),
        describe(caught(fail_elsewhere), "app.run"),
        describe(caught(lambda: fail() if False else {}["x"]), "app.run"),
    ]
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 4


def test_a_fingerprint_is_bounded_and_still_tells_apart():
    kind = type("E" * 300, (Exception,), {})
    other = type("E" * 299 + "X", (Exception,), {})
    prints = [describe(kind(), "app.run").fingerprint, describe(other(), "app.run").fingerprint]
    assert len(set(prints)) == 2
    assert max(map(len, prints)) <= 200


def test_endless_recursion_is_described():
    def dig():
        dig()

    failure = describe(caught(dig), "app.run")
    assert failure.exception_class == "builtins.RecursionError"
    assert len(failure.traceback) < TRACEBACK_LIMIT + 100
