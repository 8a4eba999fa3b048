"""What runs in the virtual environment of a peer. Imports nothing of the harness."""
