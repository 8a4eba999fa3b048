"""Backends of Django's Tasks framework: thin adapters over a store."""
