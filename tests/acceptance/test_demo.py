"""The demo as a person in a terminal has it, and every example of docs/api.md on what it leaves."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).resolve().parents[2]
API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
PROLOGUE, *EXAMPLES = re.findall(r"```bash\n(.*?)```", API, flags=re.DOTALL)
PATIENCE = 600.0


class Terminal:
    """Runs a command on a terminal of its own, and keeps what it shows."""

    def __init__(self, *command: str) -> None:
        self.master, slave = pty.openpty()
        self.shown = ""
        self.changed = threading.Condition()
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "60"}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        """Read to the end; a terminal whose last writer has gone is an error to read from."""
        while True:
            try:
                part = os.read(self.master, 65536)
            except OSError:
                part = b""
            with self.changed:
                self.shown += part.decode(errors="replace")
                self.changed.notify_all()
            if not part:
                return

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until it shows something."""
        with self.changed:
            found = self.changed.wait_for(
                lambda: re.search(pattern, self.shown) or not self.reader.is_alive(), PATIENCE
            )
        assert isinstance(found, re.Match), f"it never showed {pattern!r}:\n{self.shown[-5000:]}"
        return found

    def end(self) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self.reader.join(10)
        os.close(self.master)
        return code


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    """The address of an Airflow that the demo has left running."""
    terminal = Terminal(sys.executable, "-m", "devtools.demo")
    try:
        terminal.wait_for("PASSED: order, capacity, sections and max_wait were kept")
        page = terminal.wait_for(r"Its slot groups: (\S+)/plugin/slot-groups\r?\n")
        yield page.group(1)
    finally:
        code = terminal.end()
    assert code == 128 + signal.SIGTERM, terminal.shown[-5000:]


def test_the_page_of_the_demo_is_there(demo: str) -> None:
    """Issue 6: it ends with the address of the page."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{demo}/plugin/slot-groups") as answer:
        assert answer.status == 200


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split()[1].strip('"'))
def test_an_example_runs(demo: str, example: str) -> None:
    """Issue 5: with its exit code; `curl` fails on a refusal."""
    assert run(demo, example)


def test_the_answer_of_explain_is_as_written(demo: str) -> None:
    """But for what is left out, and for numbers, which the other examples change."""
    written = json.loads(re.findall(r"```json\n(.*?)```", API, flags=re.DOTALL)[0])
    [example] = [text for text in EXAMPLES if "/explain?" in text]
    answer = json.loads(run(demo, example))
    assert answer.keys() == written.keys()
    assert (answer["name"], answer["pool"]) == (written["name"], written["pool"])
    assert without_numbers(answer["sentence"]) == without_numbers(written["sentence"])
    checks = [without_numbers(check) for check in answer["checks"]]
    assert without_numbers(written["checks"][0]) in checks
    assert without_numbers(written["checks"][1]) in checks


def without_numbers(said: object) -> str:
    """What is said, with a mark in place of each number."""
    return re.sub(r"\d+", "#", json.dumps(said, sort_keys=True))


def run(demo: str, example: str) -> str:
    """Run an example as it is written; what it printed."""
    person = {"AIRFLOW": demo, "USERNAME": "anybody", "PASSWORD": "anything", "NO_PROXY": "*"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", PROLOGUE + example],
        env={**os.environ, **person},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
