"""Runs attempts: a claim goes in, an outcome comes out. Knows no store."""
