"""The coordinator as a process of its own: how it is set up, and how it notices that it is alone."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from types import FrameType
from uuid import uuid4

from airflow_slotgroups import __version__
from airflow_slotgroups.airflow_core.clock import utcnow
from airflow_slotgroups.airflow_core.config import (
    allow_run_priority,
    busy_interval,
    history_retention,
    idle_interval,
    lease,
)
from airflow_slotgroups.airflow_core.metrics import send_metrics_as_configured
from airflow_slotgroups.airflow_core.sessions import SessionFactory, new_session
from airflow_slotgroups.coordinator.cycle import Cycle, CycleResult
from airflow_slotgroups.coordinator.loop import Loop
from airflow_slotgroups.coordinator.metrics import Metrics
from airflow_slotgroups.coordinator.purge import Purge
from airflow_slotgroups.coordinator.sweep import Heartbeat, Sweep
from airflow_slotgroups.db_manager import check_tables
from airflow_slotgroups.store.coordinators import Identity, sign_off

log = logging.getLogger(__name__)

PARENT_POLL = 0.2


class CheckedCycle(Cycle):
    """A cycle that first makes sure, once, that the tables are there."""

    checked = False

    def run(self, *, thorough: bool = True) -> CycleResult:
        """Run one cycle.

        :raises TablesMissingError: somebody has to run `airflow db migrate`; the next cycle looks again.
        """
        if not self.checked:
            with self.sessions() as session:
                check_tables(session)
            self.checked = True
        return super().run(thorough=thorough)


def run_coordinator(scheduler_job_id: int | None = None, parent_pid: int | None = None) -> None:
    """Serve slot groups until SIGTERM or SIGINT, or until the parent process is gone.

    :param scheduler_job_id: the scheduler that started it.
    :param parent_pid: end when this process no longer is the parent; None to run alone.
    """
    who = identity(scheduler_job_id)
    send_metrics_as_configured()
    loop = make_loop(new_session, who)
    stop_on_signals(loop)
    if parent_pid is not None:
        end_with_parent(parent_pid)
    log.info("Slot groups are served by coordinator %s (process %d on %s)", who.id, who.pid, who.hostname)
    loop.run()
    leave(who)


def identity(scheduler_job_id: int | None) -> Identity:
    """Say who this coordinator is."""
    return Identity(
        id=str(uuid4()),
        hostname=socket.gethostname(),
        pid=os.getpid(),
        version=__version__,
        started_at=utcnow(),
        scheduler_job_id=scheduler_job_id,
    )


def make_loop(sessions: SessionFactory, who: Identity) -> Loop:
    """Put the parts together."""
    cycle = CheckedCycle(sessions, lease=lease(), allow_run_priority=allow_run_priority())
    return Loop(
        cycle,
        Sweep(sessions, cycle.desk.limits),
        Heartbeat(sessions, who),
        Metrics(sessions),
        Purge(sessions, history_retention()),
        busy=busy_interval(),
        idle=idle_interval(),
    )


def stop_on_signals(loop: Loop) -> None:
    """End in order when asked to."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        loop.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def end_with_parent(parent_pid: int) -> None:
    """End within a moment of the parent's death, however it died.

    A pipe would not tell: processes that the scheduler forked hold its other end (DESIGN section 3). The
    process ends at once, in the midst of a statement if need be: the database rolls an open transaction back.
    """

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(PARENT_POLL)
        os._exit(0)

    threading.Thread(target=watch, name="slotgroups-parent-watch", daemon=True).start()


def leave(who: Identity) -> None:
    """Take our row away; what is left behind by a crash is forgotten by the others."""
    try:
        with new_session() as session:
            sign_off(session, who)
    except Exception as error:
        log.warning("The coordinator's row could not be removed, and is forgotten within the hour: %s", error)
