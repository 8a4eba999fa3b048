"""The pages of the demo."""

from django.conf import settings
from django.conf.urls.static import static
from django.contrib import admin
from django.urls import path

from . import views

urlpatterns = [
    path("", views.home, name="home"),
    path("jobs/", views.jobs, name="jobs"),
    path("jobs/trouble/", views.make_trouble, name="trouble"),
    path("jobs/<str:job_id>/", views.job, name="job"),
    path("jobs/<str:job_id>/status.json", views.job_status, name="job_status"),
    path("admin/", admin.site.urls),
    *static(settings.MEDIA_URL, document_root=settings.MEDIA_ROOT),
]
