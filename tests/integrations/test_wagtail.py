"""Wagtail's own tasks, which it declares through the backport of the framework, run on our worker."""

from __future__ import annotations

import json

import pytest

from tests.integrations.project import Project, package

package("wagtail")
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]

# The schema without the history: what Wagtail's migrations fill in is not asked for here.
SETTINGS = """
WAGTAIL_APPS = ["wagtail.users", "wagtail.documents", "wagtail.images", "wagtail.admin", "wagtail"]
INSTALLED_APPS += [*WAGTAIL_APPS, "modelcluster", "taggit", "blog"]
WAGTAIL_SITE_NAME = "blog"
WAGTAILADMIN_BASE_URL = "http://localhost"
MIGRATION_MODULES = {
    **{app.rpartition(".")[2]: None for app in ("taggit",)},
    "wagtailcore": None, "wagtailimages": None, "wagtaildocs": None, "wagtailusers": None, "wagtailadmin": None,
}
"""
MODELS = """
from django.db import models
from wagtail.images.models import Image


class Post(models.Model):
    picture = models.ForeignKey(Image, null=True, on_delete=models.SET_NULL)
"""
APPS = """
from django.apps import AppConfig


class Blog(AppConfig):
    name = "blog"

    def ready(self):
        from wagtail.models import ReferenceIndex

        ReferenceIndex.register_model(self.get_model("Post"))
"""
MAKE = """
from io import BytesIO
from django.core.files.images import ImageFile
from PIL import Image as Drawing
from blog.models import Post
from wagtail.images.models import Image
from wagtail.models import Collection

Collection.add_root(name="Root")
drawn = BytesIO()
Drawing.new("RGB", (4, 4)).save(drawn, "PNG")
picture = Image.objects.create(title="dot", file=ImageFile(drawn, name="dot.png"))
Post.objects.create(picture=picture)
"""
LOOK = """
import json
from blog.models import Post
from django.conf import settings
from wagtail.images.models import Image
from wagtail.models import ReferenceIndex
print(json.dumps({
    "references": sorted(entry.model_path for entry in ReferenceIndex.objects.all()),
    "files": [file.name for file in (settings.MEDIA_ROOT / "original_images").glob("*")],
}))
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "blog").mkdir()
    made = Project(tmp_path, settings=SETTINGS)
    for name, text in {"__init__": "", "models": MODELS, "apps": APPS}.items():
        (tmp_path / "blog" / f"{name}.py").write_text(text)
    made.manage("migrate", "--run-syncdb", "--verbosity", "0")
    return made


def test_wagtails_tasks_wait_in_our_store_and_run_on_our_worker(project):
    project.python(MAKE)
    before = json.loads(project.python(LOOK))
    assert before == {"references": [], "files": ["dot.png"]}
    log = project.work()
    assert "wagtail.tasks.update_reference_index_task" in log
    assert json.loads(project.python(LOOK))["references"] == ["collection", "picture"]

    project.python("from wagtail.images.models import Image; Image.objects.get().delete()")
    assert json.loads(project.python(LOOK))["files"] == ["dot.png"]
    log = project.work()
    assert "wagtail.tasks.delete_file_from_storage_task" in log
    assert json.loads(project.python(LOOK))["files"] == []
