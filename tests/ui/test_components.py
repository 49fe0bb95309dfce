"""The page's own tests, its types, and that the bundle in the repository is what its sources make."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WWW = ROOT / "airflow_slotgroups" / "plugins" / "www"
WORK = ROOT / ".dev" / "www"
BUNDLE = "dist/slotgroups.js"
SCHEMA = "src/api/schema.ts"
MOST_BYTES = 150_000
DOCUMENT = ROOT / "docs" / "openapi.json"

pytestmark = pytest.mark.ui


def run(*command: str) -> None:
    """Run a command in the copy, and show what it said when it fails."""
    done = subprocess.run(
        command, cwd=WORK, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"


@pytest.fixture(scope="module")
def npm() -> str:
    """A copy of the sources with what they need, so that none of it is left in the package."""
    npm = os.environ.get("SLOTGROUPS_TEST_NPM") or shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on PATH: install Node 20, or name it by SLOTGROUPS_TEST_NPM")
    WORK.mkdir(parents=True, exist_ok=True)
    for part in ("src", "test", "dist"):
        shutil.rmtree(WORK / part, ignore_errors=True)
    shutil.copytree(WWW, WORK, ignore=shutil.ignore_patterns("node_modules", "dist"), dirs_exist_ok=True)
    stamp = WORK / "node_modules" / "package-lock.json"
    if not stamp.is_file() or not filecmp.cmp(stamp, WWW / "package-lock.json", shallow=False):
        run(npm, "ci", "--no-audit", "--no-fund")
        shutil.copy(WWW / "package-lock.json", stamp)
    return npm


def test_the_bundle_is_what_its_sources_make(npm: str) -> None:
    run(npm, "run", "build")

    remedy = f"build it with 'npm run build' in {WWW.relative_to(ROOT)}, and commit it"
    assert filecmp.cmp(WORK / BUNDLE, WWW / BUNDLE, shallow=False), remedy
    assert (WWW / BUNDLE).stat().st_size < MOST_BYTES


def test_the_types_are_those_of_the_api(npm: str) -> None:
    command = [str(WORK / "node_modules" / ".bin" / "openapi-typescript"), str(DOCUMENT)]
    run(*command, "--output", "made.ts")

    remedy = f"make {SCHEMA} anew with 'npm run types' in {WWW.relative_to(ROOT)}, and build the bundle"
    assert filecmp.cmp(WORK / "made.ts", WWW / SCHEMA, shallow=False), remedy


def test_the_components(npm: str) -> None:
    run(npm, "test")


def test_no_registry_is_named() -> None:
    lock = json.loads((WWW / "package-lock.json").read_text())

    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
