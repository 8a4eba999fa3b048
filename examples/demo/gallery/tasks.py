"""The work of the demo."""

import time
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db.models import F
from django.utils import timezone
from PIL import Image, ImageFilter, ImageOps

from django_vtasks import task

from .models import Beat, Picture

SIZES = (1280, 800, 400, 200, 96)
LOOKS = {
    "plain": lambda image: image,
    "mono": lambda image: ImageOps.autocontrast(image.convert("L")).convert("RGB"),
    "warm": lambda image: ImageOps.colorize(image.convert("L"), "#1b0b2e", "#fff3dc", mid="#c9683f"),
    "soft": lambda image: image.filter(ImageFilter.GaussianBlur(max(image.size) / 120)),
}


@task(takes_context=True, timeout=120, max_attempts=2, backoff=2)
def thumbnails(context, picture_id):
    """Thumbnails of a picture in every look and size; returns where they are."""
    picture = Picture.objects.get(pk=picture_id)
    started = time.monotonic()
    with Image.open(picture.file.path) as opened:
        original = ImageOps.exif_transpose(opened).convert("RGB")
    folder = Path(settings.MEDIA_ROOT) / "thumbnails" / str(picture_id)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [(look, size) for look in LOOKS for size in SIZES]
    made = []
    for number, (look, size) in enumerate(wanted):
        context.check()  # ends here when somebody cancels the job
        context.progress(number, len(wanted), f"{look}, {size} pixels")
        made.append(_thumbnail(original, folder, look, size))
    context.progress(len(wanted), len(wanted), "done")
    return {"thumbnails": made, "seconds": round(time.monotonic() - started, 2)}


def _thumbnail(original, folder, look, size):
    image = original.copy()
    image.thumbnail((size, size), Image.Resampling.LANCZOS)
    image = LOOKS[look](image)
    path = folder / f"{look}-{size}.jpg"
    image.save(path, quality=85, optimize=True)
    return {
        "name": f"{look}, {image.width} by {image.height}",
        "look": look,
        "url": f"{settings.MEDIA_URL}thumbnails/{folder.name}/{path.name}",
        "width": image.width,
        "height": image.height,
        "bytes": path.stat().st_size,
    }


@task(max_attempts=3, backoff=2)
def stumble():
    """Fails, is tried again, fails, and becomes a dead letter: the admin shows why and can enqueue it again."""
    raise RuntimeError("This task always fails, so that there is a dead letter to look at.")


@task
async def heartbeat():
    """One beat; runs on the event loop."""
    beat, _ = await Beat.objects.aget_or_create(pk=1)
    await Beat.objects.filter(pk=beat.pk).aupdate(count=F("count") + 1, last_at=timezone.now())


@task
def tidy():
    """Delete pictures that are older than a week; returns how many."""
    old = Picture.objects.filter(uploaded_at__lt=timezone.now() - timedelta(days=7))
    for picture in old:
        picture.file.delete(save=False)
    return old.delete()[0]
