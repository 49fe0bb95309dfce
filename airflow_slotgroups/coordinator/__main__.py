"""`python -m airflow_slotgroups.coordinator`: what a scheduler starts beside itself."""

from __future__ import annotations

import argparse

from airflow_slotgroups.coordinator.process import run_coordinator


def main() -> None:
    """Read the arguments that `listeners.start` gives, and serve."""
    parser = argparse.ArgumentParser(prog="airflow_slotgroups.coordinator")
    parser.add_argument("--scheduler-job-id", type=int, required=True)
    parser.add_argument("--parent-pid", type=int, required=True)
    args = parser.parse_args()
    run_coordinator(args.scheduler_job_id, args.parent_pid)


if __name__ == "__main__":
    main()
