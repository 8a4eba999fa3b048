"""Tasks that are due repeatedly: schedules (pure), entries, and the service that fires them once per slot."""
