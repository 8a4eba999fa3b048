"""Calls one function of a peer's module: `drive.py MODULE setup`, or `enqueue|load TASK COUNT`."""

import importlib
import json
import sys
import time


def main(module_name, operation, task="", count="0"):
    """Do it, and print what it took as JSON."""
    module = importlib.import_module(module_name)
    numbers = list(range(int(count)))
    if operation == "setup":
        module.setup()
        return
    if hasattr(module, "open_"):
        module.open_()
    began = time.perf_counter()
    if operation == "load":
        module.load(task, numbers)
    else:
        for number in numbers:
            module.enqueue(task, number)
    print(json.dumps({"seconds": time.perf_counter() - began}))


main(*sys.argv[1:])
