"""A store in this process's memory: the model the other stores are tested against, and the store of users' tests."""

from .store import MemoryStore

__all__ = ["MemoryStore"]
