"""Management commands of the demo: `python examples/demo/manage.py vtasks_schedule`, for example."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gallery.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
