"""Scenarios side by side: all that were selected run at once on one Airflow; each test then judges its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from .world import World

Body = Callable[[World], None]

AT_ONCE = 10
"""Scenarios at a time: each mostly waits, and two cores serve only so many tasks."""


class Board:
    """Starts scenarios and hands out their outcomes.

    :param world: where they play.
    :param bodies: the scenarios, the longest first.
    :param stop: ends their Airflow, as soon as all of them are judged: what comes next has the cores to itself.
    """

    def __init__(self, world: World, bodies: Sequence[Body], stop: Callable[[], None]) -> None:
        self._world = world
        self._stop = stop
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="scenario")
        self._outcomes: dict[Body, Future[None]] = {body: self._pool.submit(body, world) for body in bodies}

    def judge(self, body: Body) -> None:
        """Wait for the end of a scenario, and raise what it raised."""
        outcome = self._outcomes.pop(body)
        wait([outcome])
        if not self._outcomes:
            self.close()
        outcome.result()

    def close(self) -> None:
        """Stop scenarios that have not ended, and their Airflow; safe to call twice."""
        self._world.ended.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._stop()


def side_by_side(body: Body) -> Callable[[Board], None]:
    """Make a test of a scenario that shares the Airflow with the others.

    A scenario may use its own groups and DAGs alone, and must not disturb the processes of Airflow.
    """

    def test(board: Board) -> None:
        board.judge(body)

    test.__name__, test.__qualname__, test.__doc__ = body.__name__, body.__qualname__, body.__doc__
    test.__module__ = body.__module__
    setattr(test, BODY, body)
    return test


BODY = "scenario_body"
"""The attribute of a test function by which the board finds its scenario."""
