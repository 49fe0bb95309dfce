"""What people want to know of all groups at a glance: how use is made up, who waits longest, who is next."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.tables import TI
from airflow_slotgroups.domain.use import Share, share_of
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import GRANTED, WAITING, same_live_try


class Waiting(NamedTuple):
    """Who waits in a group."""

    number: int = 0
    since: datetime | None = None


def read_shares(session: Session, names: Collection[str]) -> dict[str, Counter[Share]]:
    """Read how the use of granted requests is made up, by group."""
    query = (
        select(R.pool, R.kind, R.admission, TI.state, func.sum(R.slots))
        .outerjoin(TI, same_live_try())
        .where(R.state == GRANTED, R.pool.in_(names))
        .group_by(R.pool, R.kind, R.admission, TI.state)
    )
    shares: dict[str, Counter[Share]] = defaultdict(Counter)
    for pool, kind, admission, state, slots in session.execute(query):
        shares[pool][share_of(kind, admission, state)] += int(slots)
    return shares


def read_waiting(session: Session, names: Collection[str]) -> dict[str, Waiting]:
    """Read how many wait, and since when the first does, by group."""
    query = (
        select(R.pool, func.count(), func.min(R.arrived_at))
        .where(R.state == WAITING, R.pool.in_(names))
        .group_by(R.pool)
    )
    return {pool: Waiting(number, since) for pool, number, since in session.execute(query)}
