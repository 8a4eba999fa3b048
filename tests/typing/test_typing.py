"""The files beside this one are inferred as they say, and refused where their comments say so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.architecture import ROOT

FILES = [Path(__file__).with_name(name) for name in ("declarations.py", "stores.py")]
EXPECTED = re.compile(r"# error: ([a-z-]+)")
FOUND = re.compile(r"tests/typing/(\w+\.py):(\d+): error: .*\[([a-z-]+)\]")


def test_editors_infer_what_is_meant():
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *map(str, FILES)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    expected = {
        (file.name, number, match[1])
        for file in FILES
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if (match := EXPECTED.search(line))
    }
    found = {(name, int(number), code) for name, number, code in FOUND.findall(done.stdout)}
    assert found == expected, done.stdout + done.stderr
