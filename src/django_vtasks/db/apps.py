"""The app's configuration."""

from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured


class DatabaseStoreConfig(AppConfig):
    """`django_vtasks.db`; the label is part of every table's name, so it stays `db`."""

    name = "django_vtasks.db"
    label = "db"
    verbose_name = "Task queue"
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        """Import the models. Raises ImproperlyConfigured where the app that these rows are of is not installed."""
        if not apps.is_installed("django_vtasks"):
            raise ImproperlyConfigured("INSTALLED_APPS has 'django_vtasks.db' and needs 'django_vtasks' as well.")
        super().import_models()
