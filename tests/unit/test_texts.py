"""Characters that a terminal or browser obeys are shown instead."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_vtasks.jobs.texts import visible, visible_line
from django_vtasks.operating.tables import table
from django_vtasks.operating.wording import shortened

OBEYED = {
    "escape": "\x1b[2J",
    "csi": "\x9b2J",
    "carriage return": "real\rfake",
    "backspace": "\b",
    "right to left": "\u202egnp",
    "isolate": "\u2067",
    "line separator": "\u2028",
    "half a character": "\udc80",
}


@pytest.mark.parametrize("text", OBEYED.values(), ids=OBEYED)
def test_what_would_be_obeyed_is_written_out(text):
    for shown in (visible(text), visible_line(text), shortened(text, 100), table(["A"], [[text]])):
        assert all(character == "\n" or character.isprintable() for character in shown)


def test_lines_stay_where_there_may_be_several_and_nowhere_else():
    assert visible("one\n\ttwo") == "one\n\ttwo"
    assert visible_line("one\n\ttwo") == "one\\n\\ttwo"
    assert table(["A", "B"], [["one\ntwo", 1]]).count("\n") == 1


def test_letters_of_every_script_are_shown_as_they_are():
    text = "Ärger — 保存 العربية עברית 🙂"
    assert visible(text) == text


@given(st.text())
def test_json_means_the_same_afterwards(text):
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text
