"""The subcommands of `manage.py vtasks`, each of which can also be a command of its own."""
