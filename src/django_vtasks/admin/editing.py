"""Retrying a dead letter with other arguments. What is redacted stays hidden and unchanged."""

from typing import TYPE_CHECKING, Any

import orjson
from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from ..jobs.errors import QueueError
from ..jobs.model import Job
from ..operating import bulk
from ..operating.aliases import Alias
from ..operating.calls import call_problem
from ..stores.base import Redrive
from ..tasks.redaction import HIDDEN, filled_in, redaction_of
from . import links
from .base import chosen_alias, record, tell_problem

if TYPE_CHECKING:
    from .base import StorePage


class ArgumentsForm(forms.Form):
    """The arguments of a job as JSON, and its queue."""

    args = forms.CharField(
        label="Positional arguments",
        help_text="A JSON list.",
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
    )
    kwargs = forms.CharField(
        label="Named arguments",
        help_text="A JSON object.",
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
    )
    queue = forms.CharField(max_length=255)

    def __init__(self, *args: Any, job: Job, queues: set[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._job = job
        self._queues = queues

    def clean_args(self) -> list[Any]:
        """A list, with what is hidden put back."""
        return self._read("args", list, self._job.args)  # type: ignore[no-any-return]

    def clean_kwargs(self) -> dict[str, Any]:
        """An object, with what is hidden put back."""
        return self._read("kwargs", dict, self._job.kwargs)  # type: ignore[no-any-return]

    def clean_queue(self) -> str:
        """A queue that the backend accepts, or the one the job was in."""
        queue: str = self.cleaned_data["queue"]
        if self._queues and queue not in self._queues and queue != self._job.queue:
            raise forms.ValidationError(f"There is no queue {queue!r}; known are {', '.join(sorted(self._queues))}.")
        return queue

    def clean(self) -> dict[str, Any]:
        """Arguments that the task's function accepts, if the task is in this code."""
        cleaned = self.cleaned_data
        if "args" in cleaned and "kwargs" in cleaned:
            problem = call_problem(self._job.func, cleaned["args"], cleaned["kwargs"])
            if problem:
                raise forms.ValidationError(f"The task cannot be called like this: {problem}.")
        return cleaned

    def _read(self, name: str, kind: type, original: Any) -> Any:
        try:
            value = orjson.loads(self.cleaned_data[name])
        except orjson.JSONDecodeError as error:
            raise forms.ValidationError(f"Not JSON: {error}.") from error
        if not isinstance(value, kind):
            raise forms.ValidationError(f"This must be a JSON {'list' if kind is list else 'object'}.")
        try:
            return filled_in(value, original)
        except ValueError as error:
            raise forms.ValidationError(f"{error}.") from error


def edit(page: "StorePage", request: HttpRequest, job_id: str) -> HttpResponse:
    """The form, and what it leads to."""
    alias = chosen_alias(request)
    try:
        known = alias.client.get(job_id) if alias else None
        if alias is None or known is None or known.letter is None or known.letter.job is None:
            messages.error(request, "Only a dead letter whose arguments can be read can be retried with others.")
            return HttpResponseRedirect(links.page("deadletter_changelist"))
        return _edit(page, request, alias, known.letter.job)
    except QueueError as error:
        if alias:
            tell_problem(request, alias, error)
        return HttpResponseRedirect(links.page("deadletter_changelist"))


def _edit(page: "StorePage", request: HttpRequest, alias: Alias, job: Job) -> HttpResponse:
    form = ArgumentsForm(request.POST or None, initial=_initial(job), job=job, queues=set(alias.backend.queues))
    if request.method == "POST" and form.is_valid():
        return _redrive(request, alias, job, form.cleaned_data)
    return page.show(
        request,
        "edit",
        "Retry with other arguments",
        form=form,
        job=job,
        alias=alias.name,
        hidden=HIDDEN,
        queues=sorted(alias.backend.queues),
        trail=(
            ("Dead letters", links.page("deadletter_changelist")),
            (job.id, links.job(alias.name, job.id)),
            ("Retry with other arguments", None),
        ),
        back_url=links.job(alias.name, job.id),
    )


def _initial(job: Job) -> dict[str, Any]:
    args, kwargs = redaction_of(job).arguments(job.args, job.kwargs)
    return {"args": _json(args), "kwargs": _json(kwargs), "queue": job.queue}


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _redrive(request: HttpRequest, alias: Alias, job: Job, values: dict[str, Any]) -> HttpResponse:
    changes = Redrive(args=values["args"], kwargs=values["kwargs"], queue=values["queue"])
    done = bulk.redrive(alias.admin, [job.id], changes)
    if not done.new_ids:
        messages.error(request, "It was not retried: its unique key is taken, or the letter is gone.")
        return HttpResponseRedirect(links.job(alias.name, job.id))
    new_id = done.new_ids[0]
    changed = [name for name, old in (("args", job.args), ("kwargs", job.kwargs)) if values[name] != old]
    changed += ["queue"] if values["queue"] != job.queue else []
    what = f"changed {', '.join(changed)}" if changed else "nothing changed"
    record(request, of=job.id, about=f"job {job.id} of {alias.name}", message=f"Retried as {new_id}; {what}.")
    messages.success(request, f"Retried as the job {new_id}.")
    return HttpResponseRedirect(links.job(alias.name, new_id))
