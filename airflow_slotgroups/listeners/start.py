"""Starting a coordinator beside every scheduler, and again when it dies (DESIGN section 3).

`on_starting` fires in every process that makes a Job, and in every task process too. That a process is a
scheduler is known for sure when its Job row is inserted, before the executors fork. From then on each
heartbeat of that Job (about every five seconds) is the moment to look whether the coordinator still lives:
no thread and no second process are needed to watch it.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from typing import Any

from airflow.listeners import hookimpl
from sqlalchemy import event

log = logging.getLogger(__name__)

SCHEDULER = "SchedulerJob"
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
HEALTHY_AFTER = 60.0
"""Seconds after which a coordinator that dies is no longer taken for one that can not start."""


class CoordinatorKeeper:
    """Keeps one coordinator running beside the scheduler of this process.

    :param job_id: the scheduler's job.
    """

    def __init__(self, job_id: int):
        self.job_id = job_id
        self.owner = os.getpid()
        self.child: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.pause = FIRST_PAUSE
        self.start_again_at: float | None = None
        """When the next one is due; none while the present one is not known to be dead."""

    def start(self) -> None:
        """Start the process, apart from the terminal's signals, writing where the scheduler writes."""
        command = [sys.executable, "-m", "airflow_slotgroups.coordinator"]
        command += ["--scheduler-job-id", str(self.job_id), "--parent-pid", str(os.getpid())]
        environment = {**os.environ, "_AIRFLOW_PROCESS_CONTEXT": "server"}
        self.started_at = time.monotonic()
        self.start_again_at = None
        self.child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, env=environment
        )
        log.info("Started the slot groups coordinator, process %d", self.child.pid)

    def look_after(self) -> None:
        """Start it again if it has died, with a growing pause while it dies soon after its start."""
        # Processes that the scheduler forks have this object too, and no child.
        if os.getpid() != self.owner or self.is_alive():
            return
        if self.start_again_at is None:
            self.start_again_at = self.note_death()
        if time.monotonic() >= self.start_again_at:
            self.start()

    def is_alive(self) -> bool:
        """Tell whether the process runs; one that could not be started does not."""
        return self.child is not None and self.child.poll() is None

    def note_death(self) -> float:
        """Log it, once, and tell when to start the next one."""
        lived = time.monotonic() - self.started_at
        self.pause = FIRST_PAUSE if lived > HEALTHY_AFTER else min(self.pause * 2, LONGEST_PAUSE)
        code = self.child.returncode if self.child is not None else None
        log.error("The slot groups coordinator does not run (exit code %s); starting it again", code)
        return self.started_at + self.pause


class SchedulerWatch:
    """Listens to the Job rows of this process."""

    def __init__(self) -> None:
        self.keeper: CoordinatorKeeper | None = None
        self.listening = False

    def listen_to(self, job_class: type[Any]) -> None:
        """Listen once, however many Jobs this process makes."""
        if not self.listening:
            self.listening = True
            event.listen(job_class, "after_insert", self.inserted)
            event.listen(job_class, "after_update", self.updated)

    def inserted(self, _mapper: Any, _connection: Any, job: Any) -> None:
        """A Job has been made; a scheduler's is what we wait for."""
        if job.job_type == SCHEDULER and self.keeper is None:
            self.guard(self.begin, job.id)

    def updated(self, _mapper: Any, _connection: Any, job: Any) -> None:
        """A Job has sent its heartbeat."""
        if self.keeper is not None and job.id == self.keeper.job_id:
            self.guard(self.keeper.look_after)

    def begin(self, job_id: int) -> None:
        """Start the coordinator, if it is to run here."""
        from airflow_slotgroups.airflow_core.config import CoordinatorPlace, coordinator_place

        if coordinator_place() is CoordinatorPlace.SCHEDULER:
            self.keeper = CoordinatorKeeper(job_id)
            self.keeper.start()

    def guard(self, call: Any, *args: Any) -> None:
        """No fault of ours may stop a scheduler from starting or from sending its heartbeat."""
        try:
            call(*args)
        except Exception:
            log.exception("The slot groups coordinator could not be started; slot groups are not served")


class StartListener:
    """The listener that Airflow calls."""

    def __init__(self) -> None:
        self.watch = SchedulerWatch()

    @hookimpl
    def on_starting(self, component: object) -> None:
        """A Job is being made, or a task process starts."""
        # Task processes have not loaded the Job class, and must not because of us.
        module = sys.modules.get("airflow.jobs.job")
        if module is not None and isinstance(component, module.Job):
            self.watch.listen_to(module.Job)
