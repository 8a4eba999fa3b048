"""The Django app, label `db`, that owns the tables of the database store."""
