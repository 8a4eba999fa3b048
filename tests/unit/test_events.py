"""Events: handlers hear what they asked for, and cannot break who tells them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from django_vtasks.events import Emitter, LettersEvicted, SlotFired


@pytest.fixture
def emitter():
    return Emitter()


def test_a_handler_hears_the_events_of_its_type(emitter):
    heard = []
    emitter.subscribe(LettersEvicted, heard.append)
    emitter.emit(LettersEvicted(count=3))
    emitter.emit(SlotFired(entry="nightly", slot=1.0, lag=0.0))
    assert heard == [LettersEvicted(count=3)]


def test_handlers_hear_in_the_order_they_came(emitter):
    heard = []
    for name in ("first", "second"):
        emitter.subscribe(LettersEvicted, lambda event, name=name: heard.append(name))
    emitter.emit(LettersEvicted(count=1))
    assert heard == ["first", "second"]


def test_a_handler_can_be_taken_back_more_than_once(emitter):
    heard = []
    end = emitter.subscribe(LettersEvicted, heard.append)
    end()
    end()
    emitter.emit(LettersEvicted(count=1))
    assert heard == []


def test_an_event_is_wanted_while_somebody_listens(emitter):
    assert not emitter.wanted(LettersEvicted)
    end = emitter.subscribe(LettersEvicted, print)
    assert emitter.wanted(LettersEvicted)
    assert not emitter.wanted(SlotFired)
    end()
    assert not emitter.wanted(LettersEvicted)


def test_a_handler_that_raises_stops_nobody_and_is_reported_once(emitter, caplog):
    heard = []

    def broken(event):
        raise ValueError("broken handler")

    emitter.subscribe(LettersEvicted, broken)
    emitter.subscribe(LettersEvicted, heard.append)
    with caplog.at_level(logging.ERROR, "django_vtasks.events"):
        emitter.emit(LettersEvicted(count=1))
        emitter.emit(LettersEvicted(count=2))
    assert [event.count for event in heard] == [1, 2]
    assert len(caplog.records) == 1
    assert "broken" in caplog.text
    assert "broken handler" in caplog.text


def test_a_handler_that_cannot_be_hashed_is_no_trouble(emitter, caplog):
    @dataclass
    class Unhashable:
        __hash__ = None

        def __call__(self, event):
            raise ValueError("unhashable")

    emitter.subscribe(LettersEvicted, Unhashable())
    emitter.emit(LettersEvicted(count=1))
    assert "unhashable" in caplog.text


def test_a_handler_may_unsubscribe_while_it_is_told(emitter):
    heard = []

    def once(event):
        heard.append(event)
        end()

    end = emitter.subscribe(LettersEvicted, once)
    emitter.subscribe(LettersEvicted, heard.append)
    emitter.emit(LettersEvicted(count=1))
    emitter.emit(LettersEvicted(count=2))
    assert [event.count for event in heard] == [1, 1, 2]
