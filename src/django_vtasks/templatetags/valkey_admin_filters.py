"""The filters under the library name of the 3.2 line."""

from .vtasks_admin import register

__all__ = ["register"]
