"""Upload, watch, look back."""

from datetime import UTC, datetime

from django.db import transaction
from django.http import Http404, JsonResponse
from django.shortcuts import redirect, render
from django.tasks import task_backends
from django.tasks.exceptions import TaskResultDoesNotExist
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from django_vtasks.jobs.model import JobState
from django_vtasks.stores.base import JobFilter

from .forms import PictureForm
from .models import Beat, Picture
from .tasks import stumble, thumbnails

SHOWN = 25
STATES = (JobState.LEASED, JobState.READY, JobState.SCHEDULED, JobState.SUCCEEDED, JobState.DEAD)


@require_http_methods(["GET", "POST"])
def home(request):
    """The upload form; a picture that is sent becomes a job in the same transaction."""
    form = PictureForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            picture = form.save()
            picture.job_id = thumbnails.enqueue(picture.pk).id
            picture.save(update_fields=["job_id"])
        return redirect(picture)
    context = {"form": form, "pictures": Picture.objects.all()[:12], "beat": Beat.objects.first()}
    return render(request, "gallery/home.html", context, status=400 if form.errors else 200)


@require_POST
def make_trouble(_request):
    """Enqueue a job that fails."""
    return redirect("job", stumble.enqueue().id)


@require_GET
def job(request, job_id):
    """The page of one job; it keeps itself up to date."""
    picture = Picture.objects.filter(job_id=job_id).first()
    return render(request, "gallery/job.html", {"picture": picture, "job_id": job_id, "now": _status(job_id)})


@require_GET
def job_status(_request, job_id):
    """What the page of a job asks for while the job runs."""
    return JsonResponse(_status(job_id))


@require_GET
def jobs(request):
    """The latest jobs of every state."""
    store = task_backends["default"].admin_store
    records = [record for state in STATES for record in store.page(JobFilter(state=state), limit=SHOWN).records]
    records.sort(key=lambda record: record.job.enqueued_at, reverse=True)
    rows = [_row(record) for record in records[: 2 * SHOWN]]
    return render(request, "gallery/jobs.html", {"rows": rows, "counts": store.counts()})


def _status(job_id):
    try:
        result = task_backends["default"].get_result(job_id)
    except TaskResultDoesNotExist:
        raise Http404("The result of this job is gone, or there never was such a job.") from None
    progress = result.progress
    return {
        "task": result.task.name,
        "status": result.status.value,
        "finished": result.is_finished,
        "done": progress.done if progress else 0,
        "total": progress.total if progress else None,
        "message": progress.message if progress else "",
        "attempts": result.attempts,
        "errors": [f"{error.exception_class.__name__}" for error in result.errors],
        "value": result.return_value if result.status.value == "SUCCESSFUL" else None,
        "times": {
            "enqueued": result.enqueued_at,
            "started": result.started_at,
            "finished": result.finished_at,
        },
    }


def _row(record):
    started, ended = record.started_at, record.finished_at
    return {
        "id": record.job.id,
        "task": record.job.func.rpartition(".")[2],
        "state": record.state.value,
        "enqueued_at": datetime.fromtimestamp(record.job.enqueued_at, UTC),
        "seconds": ended - started if started and ended else None,
        "attempts": len(record.worker_ids),
    }
