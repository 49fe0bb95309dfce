"""One coming of a try after the other: reschedule, retry, stuck in queued, own deferral."""

from __future__ import annotations

from tests.integration.support.scheduler import FakeScheduler
from tests.integration.support.world import World


def test_a_rescheduled_sensor_gives_its_slot_back_and_queues_again(world: World) -> None:
    """S32: one try number, several requests, one live at a time."""
    scheduler = FakeScheduler(world.database, world.clock)
    world.dag("dag")
    world.run("dag", "run")
    world.group("P", 1)
    sensor, other = world.task("sensor", "P"), world.task("other", "P")
    world.round()
    scheduler.run_to(sensor)
    world.round()

    scheduler.do("reschedule", sensor)
    world.round()
    assert world.granted() == ["other"]
    world.clock.advance(60)
    scheduler.do("due", sensor)
    world.round()
    assert world.state_of(sensor) == ["released", "waiting"]

    scheduler.run_to(other, "success")
    world.round()
    assert world.state_of(sensor) == ["released", "granted"]
