"""Real workers, real servers, real faults, and a ledger that no store knows of. See README.md."""
