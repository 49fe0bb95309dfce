"""`dev.py` refuses what it does not know, before it does anything."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEV = Path(__file__).parents[2] / "dev.py"


@pytest.mark.parametrize("verb", ["setup", "demo", "check", "bench", "clean"])
def test_a_verb_that_takes_no_arguments_does_nothing_when_it_is_given_some(tmp_path: Path, verb: str) -> None:
    shutil.copy(DEV, tmp_path)
    (tmp_path / ".dev").mkdir()
    done = subprocess.run(
        [sys.executable, str(tmp_path / "dev.py"), verb, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"{verb} takes no arguments, not '--help'")
    assert "usage: python3 dev.py VERB" in done.stderr
    assert [path.name for path in sorted(tmp_path.iterdir())] == [".dev", "dev.py"]
