"""Management commands of the test project."""

import os
import sys
from pathlib import Path


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    # The script's own folder would make `settings` and `tasks` importable under a second name.
    sys.path[0] = str(root)
    sys.path.insert(1, str(root / "src"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.project.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
