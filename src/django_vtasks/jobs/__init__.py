"""The domain: what a job is and what becomes of it. Pure: no Django, no I/O, no clock."""
