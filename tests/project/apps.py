"""The app of the test project."""

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    """Named `project`, so that its tables are emptied after each test."""

    name = "tests.project"
    label = "project"
