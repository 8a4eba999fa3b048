"""This project beside its peers, in one run."""
