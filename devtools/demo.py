"""The demo: three slot groups on a real Airflow, filled with work, watched while they drain, and judged.

`python3 dev.py demo` runs it. Exit code 0: every run succeeded, in order and within capacity.
"""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType

from rich.console import Console

from devtools.demo_data import read_executions, read_expired, read_grants, read_groups, read_sections
from devtools.demo_summary import Grant, GroupSummary, expiry_faults, section_faults, summarize
from devtools.demo_view import LiveView, PlainView, QueueView, order_line, summary_lines
from devtools.deployment import RUN_ENDED, Deployment, DeploymentError, RunKey, empty_home

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".dev" / "demo"
GROUPS = {
    "demo_warehouse": (3, "three queries at once"),
    "demo_api": (2, "two connections at once"),
    "demo_reports": (1, "one report at a time"),
}
#: Alone at first, so that its six tasks meet an idle group.
FIRST_DAG = "demo_priorities"
OTHER_DAGS = (
    "demo_wide_and_narrow",
    "demo_mapped",
    "demo_retries",
    "demo_slot_args",
    "demo_section",
    "demo_section_per_table",
    "demo_max_wait",
)
#: Several runs at once, which must not meet in their sections.
SECTION_DAG, SECTION_RUNS = "demo_section", 3
#: It waits behind a longer one, and is expected to fail.
IMPATIENT = "max_wait.in_time"
#: What is left in a terminal: tasks of this run of the first DAG, waiting in this group.
PAUSED_GROUP, RUN_TO_TRY = "demo_warehouse", "to_try"
DRAIN_TIMEOUT_SECONDS = 240.0
STARTED = time.monotonic()


def main() -> int:
    """Run the demo; returns the exit code."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    try:
        return demo(terminal)
    except DeploymentError as error:
        print(f"demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo interrupted, all that it started is stopped", file=sys.stderr)
        return 130


def demo(terminal: bool) -> int:
    """Everything from an empty home to the verdict."""
    run_id = f"demo_{datetime.now(timezone.utc):%Y%m%d_%H%M%S}"
    # What an interrupted demo left in its queues would get in the way of this one.
    empty_home(HOME)
    # Eight workers are enough for six slots, and start faster.
    config = {"AIRFLOW__CORE__PARALLELISM": "8"}
    with Deployment(HOME, dags=ROOT / "dags_examples", config=config) as airflow:
        prepare(airflow)
        say("starting Airflow: scheduler, DAG processor, API server")
        airflow.start()
        say(f"Airflow is up at {airflow.url}, no password")
        airflow.wait_dag_parsed([FIRST_DAG, *OTHER_DAGS])
        failed = run_dags(airflow, run_id, terminal)
        code = verdict(airflow, run_id, failed)
        if terminal:
            stay(airflow)
    say("Airflow is stopped")
    return code


def prepare(airflow: Deployment) -> None:
    """Tables and groups."""
    say(f"preparing {HOME.relative_to(ROOT)}: airflow db migrate")
    airflow.migrate()
    for name, (slots, description) in GROUPS.items():
        say(f'airflow slotgroups set {name} {slots} "{description}"')
        airflow.cli("slotgroups", "set", name, str(slots), description)


def run_dags(airflow: Deployment, run_id: str, terminal: bool) -> list[str]:
    """Trigger the DAGs and watch the queue drain; returns the DAGs of which a run did not succeed."""
    more = [(SECTION_DAG, f"{run_id}_{number}") for number in range(2, SECTION_RUNS + 1)]
    states = _watch(airflow, run_id, [(FIRST_DAG, run_id)], terminal)
    states |= _watch(airflow, run_id, [*((dag_id, run_id) for dag_id in OTHER_DAGS), *more], terminal)
    return sorted({dag_id for (dag_id, _), state in states.items() if state != "success"})


def verdict(airflow: Deployment, run_id: str, failed: Sequence[str]) -> int:
    """Print the summary; returns 0 when all went as it should."""
    grants = read_grants(airflow, run_id)
    summaries = summarize_groups(airflow, run_id, grants)
    sections = read_sections(airflow, run_id)
    expired = read_expired(airflow, run_id)
    faults = [f"{dag_id}: a run did not succeed" for dag_id in failed]
    faults += [fault for one in summaries for fault in one.faults]
    faults += section_faults(sections)
    faults += expiry_faults(expired, IMPATIENT)
    print("\nSummary, from Airflow's own tables and the queue's:")
    print("\n".join(f"  {line}" for line in summary_lines(summaries)))
    print(f"  {order_line(FIRST_DAG.removeprefix('demo_'), grants)}")
    print("  inversions: tasks that were let in before one that stood above them in the queue")
    print(f"  sections that held slots, no two of a group at once: {len(sections)}")
    print(f"  failed by its max_wait, as it was meant to: {', '.join(expired) or 'none'}")
    for fault in faults:
        print(f"  FAULT {fault}")
    print("FAILED" if faults else "PASSED: order, capacity, sections and max_wait were kept")
    sys.stdout.flush()
    return 1 if faults else 0


def summarize_groups(airflow: Deployment, run_id: str, grants: Sequence[Grant]) -> list[GroupSummary]:
    """One summary for each group of the demo."""
    executions = read_executions(airflow, run_id)
    return [summarize(group, slots, grants, executions) for group, (slots, _) in GROUPS.items()]


def stay(airflow: Deployment) -> None:
    """Leave Airflow running until Ctrl-C, with something to try the page and the API on."""
    leave_a_queue(airflow)
    print(f"\nAirflow goes on at {airflow.url} (no password). Ctrl-C stops it.")
    print(f"Group '{PAUSED_GROUP}' is paused, with six tasks in its queue for you to play with.")
    print(f"Its slot groups: {airflow.url}/plugin/slot-groups")
    print("Its commands, in another terminal, from here:")
    print(f"  {command_line(airflow)} slotgroups queue {PAUSED_GROUP}", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print(flush=True)
        say("stopping Airflow")


def command_line(airflow: Deployment) -> str:
    """How to call `airflow` on this deployment, with those of its settings that commands go by."""
    core = ("DAGS_FOLDER", "LOAD_EXAMPLES", "PARALLELISM")
    names = ("AIRFLOW_HOME", *(f"AIRFLOW__CORE__{name}" for name in core))
    settings = " ".join(f"{name}={shlex.quote(airflow.env[name])}" for name in names)
    return f"{settings} {shlex.quote(airflow.python)} -m airflow"


def leave_a_queue(airflow: Deployment) -> None:
    """Pause a group, and let a run's tasks wait in it; docs/api.md speaks of them."""
    airflow.cli("slotgroups", "pause", PAUSED_GROUP, "--comment", "the demo leaves a queue to try things on")
    airflow.trigger(FIRST_DAG, RUN_TO_TRY)
    waiting = "SELECT count(*) AS number FROM slot_request WHERE state = 'waiting' AND run_id = :run"
    airflow.wait_for(lambda: airflow.rows(waiting, run=RUN_TO_TRY)[0]["number"] == 6, 60, "six waiters")


def say(line: str) -> None:
    """A line of progress with the seconds since the start."""
    print(f"[{time.monotonic() - STARTED:6.1f} s] {line}", flush=True)


def _watch(airflow: Deployment, run_id: str, runs: Sequence[RunKey], terminal: bool) -> dict[RunKey, str]:
    """Make these runs and show the groups until they have ended; returns their states."""
    dag_ids = list(dict.fromkeys(dag_id for dag_id, _ in runs))
    for dag_id in dag_ids:
        airflow.unpause(dag_id)
    for run in runs:
        airflow.trigger(*run)
    say(f"triggered {', '.join(dag_ids)}")
    view: QueueView = LiveView(Console()) if terminal else PlainView(say)
    with view:

        def ended() -> dict[RunKey, str]:
            view.show(read_groups(airflow, run_id))
            return _states(airflow, runs)

        return airflow.wait_for(ended, DRAIN_TIMEOUT_SECONDS, f"the end of {', '.join(dag_ids)}")


def _states(airflow: Deployment, runs: Sequence[RunKey]) -> dict[RunKey, str]:
    """The states of these runs, nothing while one of them goes on."""
    rows = airflow.rows("SELECT dag_id, run_id, state FROM dag_run")
    found = {(row["dag_id"], row["run_id"]): str(row["state"]) for row in rows}
    states = {run: found[run] for run in runs}
    return states if all(state in RUN_ENDED for state in states.values()) else {}


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
