"""What may happen around a coordinator, one move at a time, by a number that chooses the object."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from hypothesis import note
from sqlalchemy.exc import DBAPIError

from airflow_slotgroups.airflow_core.locks import is_locked
from airflow_slotgroups.coordinator.cycle import Cycle
from airflow_slotgroups.domain.errors import SlotGroupsError
from airflow_slotgroups.domain.states import Mode, RequestState, Strategy
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.services import groups as services
from airflow_slotgroups.services import requests
from airflow_slotgroups.services.groups import GroupChange
from tests.integration.support.history_dags import ACQUIRE, DAG_IDS, SECTIONS
from tests.integration.support.rules import BETWEEN, UNLIMITED, key_of, look
from tests.integration.support.scheduler import FINISHED, FakeScheduler
from tests.integration.support.world import WHO, Key, World

SIZES = (1, 2, 3, 5, 0, -1)
PRIORITIES = (-5, 0, 3, 50, 2**31 - 1)


class Moves:
    """What may happen around the coordinator; each move takes a number to choose its object by."""

    def __init__(self, world: World, scheduler: FakeScheduler) -> None:
        self.world = world
        self.scheduler = scheduler
        self.clock = world.clock
        self.came_again: set[int] = set()
        """Requests whose try was scheduled anew after it ran: the next cycle gives their slots back (S32)."""

    def play(self, name: str, pick: int) -> Any:
        """Make a move; one that is refused, or finds its rows locked, does not happen, and returns None."""
        self.clock.advance()
        try:
            return getattr(self, name)(pick)
        except SlotGroupsError as error:
            note(f"  {name} is refused: {error}")
        except DBAPIError as error:
            if not is_locked(error):
                raise
            note(f"  {name} finds rows locked")
        return None

    def choose(
        self, pick: int, *states: str | None, but: tuple[str | None, ...] = (), own: bool = False
    ) -> Key | None:
        """One of the task instances in those states, or in any but those.

        :param own: no acquire of a section, which waits for us.
        """
        facts = look(self.world.database, self.clock.now)
        fitting = [
            key
            for key, ti in facts.tis.items()
            if (ti.state in states if states else ti.state not in but)
            and not (own and key.task_id == ACQUIRE)
        ]
        return sorted(fitting)[pick % len(fitting)] if fitting else None

    def with_one(self, move: str, pick: int, *states: str | None, **more: Any) -> None:
        """Let the scheduler's `move` happen to one of the task instances in those states."""
        key = self.choose(pick, *states, **more)
        if key is not None:
            note(f"  {move} {key}")
            self.scheduler.do(move, key)

    # --- The scheduler and the workers.

    def due(self, pick: int) -> None:
        key = self.choose(pick, *BETWEEN)
        if key is None:
            return
        note(f"  due {key}")
        if key.dag_id in SECTIONS:
            self.look_at_run(key.dag_id, key.run_id)
        else:
            self.scheduler.do("due", key)

    def due_many(self, pick: int) -> None:
        for number in range(4):
            self.due(pick + 7 * number)

    def queue(self, _pick: int) -> None:
        note(f"  {self.scheduler.critical_section()} are queued")

    def start(self, pick: int) -> None:
        self.with_one("start", pick, "queued")

    def go(self, pick: int) -> None:
        """Queue what may be queued, and start some of it."""
        self.queue(pick)
        for number in range(3):
            self.start(pick + number)

    def defer(self, pick: int) -> None:
        self.with_one("defer", pick, "running")

    def ask(self, pick: int) -> None:
        self.with_one("ask", pick, "running")

    def resume(self, pick: int) -> None:
        """An event has come; for an acquire that waits, none ever does."""
        self.with_one("resume", pick, "deferred", "awaiting_input", own=True)

    def succeed(self, pick: int) -> None:
        key = self.choose(pick, "running")
        if key is not None:
            note(f"  {key} succeeds")
            self.scheduler.do("end", key, "success")

    def fail(self, pick: int) -> None:
        """It fails, is killed in a restart, or its executor refuses it."""
        key = self.choose(pick, "running", "restarting", "queued")
        if key is not None:
            note(f"  {key} fails")
            self.scheduler.do("end", key, "failed")

    def retry(self, pick: int) -> None:
        self.with_one("retry", pick, "running", "restarting", "queued")

    def retry_at_once(self, pick: int) -> None:
        """So fast that it is queued again before any cycle can see it."""
        key = self.choose(pick, "running")
        if key is not None:
            note(f"  {key} is retried and queued")
            self.scheduler.do("retry", key)
            self.scheduler.do("due", key)
            self.queue(pick)

    def reschedule(self, pick: int) -> None:
        self.with_one("reschedule", pick, "running")

    def reschedule_at_once(self, pick: int) -> None:
        """It comes again before any cycle can see that it was gone."""
        key = self.choose(pick, "running")
        if key is not None:
            note(f"  {key} is rescheduled and due")
            granted = look(self.world.database, self.clock.now).live("granted")
            self.scheduler.do("reschedule", key)
            self.scheduler.do("due", key)
            self.came_again |= {request.id for request in granted if key_of(request) == key}

    def skip(self, pick: int) -> None:
        """By a branch, a trigger rule or fail_fast: nothing tells of it."""
        key = self.choose(pick, None, "scheduled")
        if key is not None:
            note(f"  {key} is skipped")
            self.scheduler.do("mark", key, "skipped")

    def requeue_stuck(self, pick: int) -> None:
        self.with_one("requeue_stuck", pick, "queued")

    def reset_orphan(self, pick: int) -> None:
        self.with_one("reset_orphan", pick, "queued", "scheduled")

    # --- Sections.

    def section(self, pick: int) -> None:
        """A section goes as far as it may: its acquire waits, or what is between it and its release runs."""
        keys = self.of_section(pick)
        if keys:
            note(f"  {keys[0].dag_id}.{keys[0].run_id} goes on")
            self.look_at_run(keys[0].dag_id, keys[0].run_id)
        self.queue(pick)

    def end_inner(self, pick: int) -> None:
        """What runs in a section ends, one way or the other."""
        for key in self.of_section(pick):
            self.scheduler.do("start", key)
            self.scheduler.do("end", key, ("success", "success", "failed")[pick % 3])
        self.section(pick)

    def clear_section(self, pick: int) -> None:
        """Clearing a task in a section clears its acquire and its release as well."""
        keys = self.of_section(pick)
        if keys:
            note(f"  clear {[str(key) for key in keys]}")
            self.scheduler.do("clear", *keys)

    def of_section(self, pick: int) -> list[Key]:
        """The task instances of one run of a section."""
        keys = [key for key in look(self.world.database, self.clock.now).tis if key.dag_id in SECTIONS]
        runs = sorted({(key.dag_id, key.run_id) for key in keys})
        chosen = runs[pick % len(runs)] if runs else None
        return sorted(key for key in keys if (key.dag_id, key.run_id) == chosen)

    def look_at_run(self, dag_id: str, run_id: str) -> None:
        """The scheduler looks at a run, if it is one that it looks at."""
        facts = look(self.world.database, self.clock.now)
        run = facts.runs.get((dag_id, run_id))
        if run is not None and run.state == "running" and not facts.dags[dag_id].is_paused:
            self.scheduler.do("look_at_run", dag_id, run_id)

    # --- People with Airflow's own means.

    def clear(self, pick: int) -> None:
        self.with_one("clear", pick, but=(None,))

    def mark(self, pick: int) -> None:
        key = self.choose(pick, but=FINISHED)
        if key is not None:
            state = ("failed", "success")[pick % 2]
            note(f"  {key} is marked {state}")
            self.scheduler.do("mark", key, state)

    def delete_ti(self, pick: int) -> None:
        self.with_one("delete_ti", pick, but=())

    def delete_run(self, pick: int) -> None:
        self.of_run("delete_run", pick)

    def fail_run(self, pick: int) -> None:
        self.of_run("fail_run", pick)

    def stop_run(self, pick: int) -> None:
        """A run goes back to queued, or on."""
        self.of_run("set_run", pick, ("queued", "running", "running")[pick % 3])

    def of_run(self, move: str, pick: int, *arguments: str) -> None:
        """Let a move happen to one of the runs."""
        runs = sorted(look(self.world.database, self.clock.now).runs)
        if runs:
            note(f"  {move} {runs[pick % len(runs)]} {arguments}")
            self.scheduler.do(move, *runs[pick % len(runs)], *arguments)

    def pause_dag(self, pick: int) -> None:
        dag_id = DAG_IDS[pick % len(DAG_IDS)]
        note(f"  {dag_id} paused: {pick % 2 == 0}")
        self.scheduler.do("pause", dag_id, pick % 2 == 0)

    def lose_file(self, pick: int) -> None:
        """The file of a DAG is not known for a while."""
        dag_id = DAG_IDS[pick % len(DAG_IDS)]
        note(f"  the file of {dag_id} is known: {pick % 3 > 0}")
        self.scheduler.do("find_file", dag_id, pick % 3 > 0)

    # --- People with pools and groups.

    def open_pool(self, pick: int) -> None:
        """Set the closed pool by hand; make it again when it was deleted."""
        note(f"  P is set to {SIZES[pick % 6]} by hand")
        self.world.pool("P", SIZES[pick % 6], include_deferred=pick % 5 == 0)

    def edit_running(self, pick: int) -> None:
        note(f"  P.running is set to {SIZES[pick % 6]} by hand")
        with self.world.database.session() as session:
            session.execute(
                sa.text("UPDATE slot_pool SET slots = :slots WHERE pool = 'P.running'"),
                {"slots": SIZES[pick % 6]},
            )

    def drop_pool(self, pick: int) -> None:
        name = ("P", "P.running", UNLIMITED)[pick % 3]
        note(f"  {name} is deleted")
        self.world.drop_pool(name)

    def resize(self, pick: int) -> None:
        note(f"  P gets {SIZES[pick % 6]} slots")
        services.set_group("P", GroupChange(slots=SIZES[pick % 6]), who=WHO)

    def change(self, pick: int) -> None:
        """Another strategy or another ageing."""
        strategy = (Strategy.STRICT, Strategy.BACKFILL)[pick % 2]
        ageing = (0, 1, 600)[pick % 3]
        note(f"  P becomes {strategy} with ageing {ageing}")
        change = GroupChange(slots=2, strategy=strategy, max_passes=2, ageing_seconds=ageing)
        services.set_group("P", change, who=WHO)

    def mode(self, pick: int) -> None:
        """Pause the group, lift its limit, or let it go on."""
        mode = (Mode.ACTIVE, Mode.PAUSED, Mode.BYPASS, Mode.ACTIVE)[pick % 4]
        note(f"  P becomes {mode}")
        services.set_mode("P", mode, who=WHO)

    # --- People with waiters.

    def waiter(self, pick: int, pool: str = "P") -> Any:
        """One of the requests that wait; None when there is none."""
        waiting = look(self.world.database, self.clock.now).live("waiting", pool)
        return waiting[pick % len(waiting)] if waiting else None

    def suspend(self, pick: int) -> None:
        if request := self.waiter(pick):
            note(f"  {key_of(request)} is suspended")
            requests.suspend("P", [Which(request_id=request.id)], who=WHO)

    def unsuspend(self, pick: int) -> None:
        """All of them, or one."""
        request = self.waiter(pick) if pick % 2 else None
        requests.unsuspend("P", [Which(request_id=request.id if request else None)], who=WHO)

    def prioritize(self, pick: int) -> None:
        if request := self.waiter(pick):
            note(f"  {key_of(request)} gets priority {PRIORITIES[pick % 5]}")
            requests.prioritize("P", [Which(request_id=request.id)], PRIORITIES[pick % 5], who=WHO)

    def to_top(self, pick: int) -> list[int]:
        """Bring one waiter before all others, or all of a DAG; return the requests that stand first now."""
        request = self.waiter(pick)
        if request is None:
            return []
        which = Which(request_id=request.id) if pick % 3 else Which(dag_id=request.dag_id)
        raised = requests.prioritize("P", [which], None, who=WHO)
        note(f"  to the top: {[entry.request_id for entry in raised]}")
        return [entry.request_id for entry in raised if entry.state is RequestState.WAITING]

    def force(self, pick: int) -> None:
        """Start a waiter by force."""
        if request := self.waiter(pick):
            note(f"  {key_of(request)} is forced")
            requests.force_start("P", [Which(request_id=request.id)], who=WHO)

    # --- People who begin and end.

    def adopt(self, _pick: int) -> None:
        services.adopt("P", GroupChange(), who=WHO)

    def dissolve(self, _pick: int) -> None:
        services.dissolve("P", who=WHO)

    def delete_group(self, _pick: int) -> None:
        services.delete("P", who=WHO)

    # --- Time, and others like us.

    def wait(self, pick: int) -> None:
        """Longer than the lease, than the pause after adopting, or than some tasks are willing to wait."""
        self.clock.advance((3, 61, 130)[pick % 3])

    def other_cycle(self, _pick: int) -> None:
        """A second coordinator, with a memory of its own."""
        Cycle(self.world.database.session, self.clock).run()


HELPERS = {"play", "choose", "with_one", "of_run", "waiter", "of_section", "look_at_run"}
AROUND = sorted(name for name in vars(Moves) if name not in HELPERS and name[0] != "_")
"""The names of all moves."""
