"""The end of a random history: left to itself, with nothing in the way, everything ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import note

from airflow_slotgroups.domain.states import Mode
from airflow_slotgroups.services import groups as services
from airflow_slotgroups.services.groups import GroupChange
from tests.integration.support.history_dags import ACQUIRE, DAG_IDS, RUNS, SECTIONS
from tests.integration.support.rules import BETWEEN, key_of
from tests.integration.support.scheduler import FINISHED
from tests.integration.support.world import WHO

if TYPE_CHECKING:
    from tests.integration.support.history import History


class Drain:
    """Takes everything out of the way, and lets all that is due run to its end."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.world, self.moves = history.world, history.moves

    def run(self) -> None:
        """Work until nothing is unfinished."""
        self.make_way()
        for _ in range(60):
            if not self.unfinished():
                break
            self.history.cycle()
            self.work()
            note(f"  drain: {self.under_way()}")
        self.history.cycle()
        facts = self.history.look()
        left = [
            f"{key}: {ti.state} in {ti.pool}, requests {[r for r in facts.live() if key_of(r) == key]}"
            for key, ti in facts.tis.items()
            if ti.state not in (None, *FINISHED)
        ]
        assert not left, f"never ended: {left}"
        assert not facts.live(), f"live requests are left: {facts.live()}"

    def make_way(self) -> None:
        """Open all that may be shut."""
        self.history.cycle()
        for name in ("P", "Q/q x"):
            if self.history.look().pools.get(name) is None:
                self.world.pool(name, 4)
        self.history.cycle()
        self.moves.play("adopt", 0)
        self.world.clock.advance(200)
        services.set_group("P", GroupChange(slots=4), who=WHO)
        services.set_mode("P", Mode.ACTIVE, who=WHO)
        self.moves.play("unsuspend", 0)
        for dag_id in DAG_IDS:
            self.moves.scheduler.do("pause", dag_id, False)
            self.moves.scheduler.do("find_file", dag_id, True)
        for dag_id, run_id in self.history.look().runs:
            self.moves.scheduler.do("set_run", dag_id, run_id, "running")

    def unfinished(self) -> bool:
        """Whether anything is still under way, or holds slots."""
        facts = self.history.look()
        states = {ti.state for ti in facts.tis.values()}
        return bool(states - {None, *FINISHED} or facts.live())

    def under_way(self) -> list[str]:
        """What is unfinished, for a failure to show."""
        tis = self.history.look().tis
        return [
            f"{key} {ti.state} in {ti.pool}" for key, ti in tis.items() if ti.state not in (None, *FINISHED)
        ]

    def work(self) -> None:
        """Everything that runs ends, and everything that waits for its time has it."""
        self.world.clock.advance(5)
        scheduler = self.moves.scheduler
        scheduler.critical_section()
        for dag_id in SECTIONS:
            for run_id in RUNS[dag_id]:
                self.moves.look_at_run(dag_id, run_id)
        for key, ti in self.history.look().tis.items():
            if key.task_id == ACQUIRE:
                continue
            move = {"queued": "start", "deferred": "resume", "awaiting_input": "resume"}.get(ti.state)
            if move:
                scheduler.do(move, key)
            elif ti.state in ("running", "restarting"):
                scheduler.do("end", key, "success")
            elif ti.state in BETWEEN - {None}:
                scheduler.do("due", key)
