"""What is asked of the server, as values; sync and async clients carry out the same plans."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from ...jobs.assembling import assembler
from .scripts import Script, script

type Part = bytes | str | int | float


@dataclass(frozen=True, slots=True)
class Call:
    """One script with its arguments. `again`: it may be sent a second time when a connection broke."""

    script: Script
    args: Sequence[Part]
    again: bool = True


@dataclass(frozen=True, slots=True)
class Command:
    """One plain command that changes nothing."""

    parts: Sequence[Part]
    again: bool = True


_assemble_call = assembler(Call)

type Request = Call | Command
type Plan[T] = Generator[Request, Any, T]


def call(name: str, *args: Part, again: bool = True) -> Call:
    """A call of the script with this name; the first argument is the time, or empty text."""
    return _assemble_call(script(name), args, again)


def wire(request: Request, guard: str) -> Sequence[Part]:
    """The command to send; scripts by their digest."""
    if isinstance(request, Command):
        return request.parts
    return (b"EVALSHA", request.script.digest, b"1", guard, *request.args)


def full_wire(request: Call, guard: str) -> Sequence[Part]:
    """The command that sends the script along, after a restart or SCRIPT FLUSH."""
    return (b"EVAL", request.script.source, b"1", guard, *request.args)
