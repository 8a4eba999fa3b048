"""`doctor`: what would not work in this project."""

from dataclasses import asdict

from django.core.management.base import CommandError

from ...framework import task_backends
from ...operating.doctor import Diagnosis, Finding, diagnose
from .base import FAILED, USAGE, Console, Operation, Options


class Doctor(Operation):
    """Settings and stores, looked at once."""

    name = "doctor"
    help = "Read the settings, ask the stores, and say what would not work and what to do. Exits with 1 on errors."
    all_aliases = True

    def run(self, console: Console, options: Options) -> None:
        """Look and tell. Raises CommandError when something does not work."""
        alias = options["alias"]
        if alias is not None and alias not in list(task_backends):
            known = ", ".join(task_backends) or "none"
            raise CommandError(f"TASKS has no alias {alias!r}; choose one of: {known}", returncode=USAGE)
        diagnosis = diagnose(alias)
        if console.as_json:
            console.json({"well": diagnosis.is_well, **asdict(diagnosis)})
        else:
            _draw(console, diagnosis)
        if not diagnosis.is_well:
            count = sum(finding.severity == "error" for finding in diagnosis.findings)
            raise CommandError(f"{count} thing(s) do not work.", returncode=FAILED)


def _draw(console: Console, diagnosis: Diagnosis) -> None:
    console.line("== project")
    _list(console, diagnosis.project)
    for patient in diagnosis.patients:
        console.line()
        console.line(f"== {patient.alias}: {patient.location}")
        for name, value in patient.facts.items():
            console.line(f"{name}: {value}")
        _list(console, patient.findings)


def _list(console: Console, findings: tuple[Finding, ...]) -> None:
    for finding in findings:
        console.line(f"{finding.severity}: {finding.text}")
        if finding.hint:
            console.line(f"  {finding.hint}")
    if not findings:
        console.line("nothing is wrong")
