"""The public names infer what `declarations.py` says, and refuse what its comments say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.architecture import ROOT

DECLARATIONS = Path(__file__).with_name("declarations.py")
EXPECTED = re.compile(r"# error: ([a-z-]+)")
FOUND = re.compile(r"declarations\.py:(\d+): error: .*\[([a-z-]+)\]")


def test_editors_infer_what_is_meant():
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(DECLARATIONS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    lines = DECLARATIONS.read_text().splitlines()
    expected = {(number, match[1]) for number, line in enumerate(lines, 1) if (match := EXPECTED.search(line))}
    found = {(int(number), code) for number, code in FOUND.findall(done.stdout)}
    assert found == expected, done.stdout + done.stderr
