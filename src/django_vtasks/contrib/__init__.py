"""Bridges from other packages; nothing here is loaded unless it is imported."""
