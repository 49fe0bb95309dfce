"""What has been in a group, for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.clock import utcnow
from airflow_slotgroups.domain.discretion import MaySee, everything
from airflow_slotgroups.domain.errors import InvalidValueError
from airflow_slotgroups.domain.history import WAITED, Bucket, Span, summarize
from airflow_slotgroups.domain.states import Kind, RequestState
from airflow_slotgroups.models import SlotRequest
from airflow_slotgroups.services.groups import find_group
from airflow_slotgroups.services.transaction import read
from airflow_slotgroups.store.history import (
    Ended,
    count_ended,
    dags_of_ended,
    ended_requests,
    read_changes,
    read_past,
)

MOST_HOURS = 24 * 366
MOST_BUCKETS = 1000
MOST_REQUESTS = 10_000


@dataclass(frozen=True)
class EndedRequest:
    """A request that has ended.

    :param admission: how it came in; None when it never did.
    :param waited: from arrival to grant, or to the end when it was never granted; None for those that never
        stood in the queue.
    :param held: from grant to end; None when it was never granted.
    """

    request_id: int
    kind: Kind
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    slots: int
    priority: int
    state: RequestState
    admission: str | None
    end_reason: str | None
    arrived_at: datetime
    granted_at: datetime | None
    ended_at: datetime
    waited: timedelta | None
    held: timedelta | None
    comment: str | None


def history_of(name: str, hours: float = 24, buckets: int = 24) -> list[Bucket]:
    """Return what was in a group in each of so many equal stretches of the last hours.

    :raises UnknownGroupError, OrdinaryPoolError: that name is no group.
    :raises InvalidValueError: a number is out of its range.
    """
    check_hours(hours)
    if not 1 <= buckets <= MOST_BUCKETS:
        raise InvalidValueError("buckets", buckets, f"give 1 to {MOST_BUCKETS}")
    return read(lambda session: history_in(session, name, hours, buckets))


def history_in(session: Session, name: str, hours: float, buckets: int) -> list[Bucket]:
    """Read and summarize."""
    find_group(session, name)
    end = utcnow()
    span = Span(end - timedelta(hours=hours), end, buckets)
    past = read_past(session, name, span.start, span.end)
    return summarize(span, past, read_changes(session, name, span.start, span.end))


def requests_of(name: str, hours: float = 24, limit: int = 100) -> list[EndedRequest]:
    """Return the requests of a group that have ended in the last hours, the last one first.

    :raises UnknownGroupError, OrdinaryPoolError: that name is no group.
    :raises InvalidValueError: a number is out of its range.
    """
    check_hours(hours)
    if not 1 <= limit <= MOST_REQUESTS:
        raise InvalidValueError("limit", limit, f"give 1 to {MOST_REQUESTS}")
    return read(lambda session: ended_page(session, name, hours, limit, 0, ALL, everything).entries)


@dataclass(frozen=True)
class EndedOnly:
    """Which ended requests are asked for; what is None does not matter."""

    dag_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    state: RequestState | None = None

    def names(self) -> bool:
        """Tell whether it asks by a name."""
        return (self.dag_id, self.task_id, self.run_id) != (None, None, None)


ALL = EndedOnly()


@dataclass(frozen=True)
class EndedPage:
    """A part of a list.

    :param total: how many there are in all.
    """

    entries: list[EndedRequest]
    total: int


def ended_of(
    name: str, hours: float, limit: int, offset: int, only: EndedOnly = ALL, may_see: MaySee = everything
) -> EndedPage:
    """Return a page of the requests that have ended in the last hours, the last one first.

    :param may_see: the DAGs whose tasks can be found by their names.
    :raises UnknownGroupError, OrdinaryPoolError: that name is no group.
    :raises InvalidValueError: a number is out of its range.
    """
    check_hours(hours)
    return read(lambda session: ended_page(session, name, hours, limit, offset, only, may_see))


def ended_page(
    session: Session, name: str, hours: float, limit: int, offset: int, only: EndedOnly, may_see: MaySee
) -> EndedPage:
    """Read it."""
    find_group(session, name)
    state = only.state.value if only.state is not None else None
    asked = Ended(name, utcnow() - timedelta(hours=hours), only.task_id, only.run_id, state)
    if only.names():
        dags = [only.dag_id] if only.dag_id is not None else dags_of_ended(session, asked)
        asked = asked._replace(dags=[dag_id for dag_id in dags if may_see(dag_id)])
    rows = ended_requests(session, asked, limit, offset)
    return EndedPage([ended_request(row) for row in rows], count_ended(session, asked))


def ended_request(row: SlotRequest) -> EndedRequest:
    """Describe one."""
    assert row.ended_at is not None
    return EndedRequest(
        request_id=row.id,
        kind=Kind(row.kind),
        dag_id=row.dag_id,
        run_id=row.run_id,
        task_id=row.task_id,
        map_index=row.map_index,
        try_number=row.try_number,
        slots=row.slots,
        priority=row.priority,
        state=RequestState(row.state),
        admission=row.admission,
        end_reason=row.end_reason,
        arrived_at=row.arrived_at,
        granted_at=row.granted_at,
        ended_at=row.ended_at,
        waited=waited(row),
        held=row.ended_at - row.granted_at if row.granted_at is not None else None,
        comment=row.comment,
    )


def waited(row: SlotRequest) -> timedelta | None:
    """How long it stood in the queue."""
    if row.admission is not None and row.admission not in WAITED:
        return None
    return (row.granted_at or row.ended_at or row.arrived_at) - row.arrived_at


def check_hours(hours: float) -> None:
    """Refuse a stretch of time that is none."""
    if not 0 < hours <= MOST_HOURS:
        raise InvalidValueError("hours", hours, f"give more than 0, and at most {MOST_HOURS}")
