"""Jobs in Valkey or Redis."""
