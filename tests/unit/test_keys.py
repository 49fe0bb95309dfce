"""How a request finds its task instance, as SQL."""

from __future__ import annotations

import pytest
from sqlalchemy import Executable, select, update

from airflow_slotgroups.airflow_core.tables import TI
from airflow_slotgroups.models import SlotRequest as R
from airflow_slotgroups.store.keys import is_granted, same_task_instance


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(select(TI.id).where(is_granted()), id="of task instances"),
        pytest.param(
            select(TI.id, R.id).join(R, same_task_instance()).where(is_granted()), id="joined with requests"
        ),
        pytest.param(update(TI).where(is_granted()).values(pool="p"), id="as the condition of an update"),
    ],
)
def test_whether_a_task_instance_is_granted_is_asked_of_all_requests(query: Executable) -> None:
    """Not of the one that the query around it has joined."""
    [_, inner] = str(query).split("EXISTS", 1)

    assert "FROM slot_request \n" in inner or "FROM slot_request\n" in inner
    assert "FROM slot_request, task_instance" not in inner
