"""The store in the project's own database: SQLite, PostgreSQL, MySQL or MariaDB."""
