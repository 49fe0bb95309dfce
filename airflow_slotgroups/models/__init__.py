"""Our tables, and nothing else. They live beside Airflow's, with no foreign keys to them (DESIGN rule 8)."""

from airflow_slotgroups.models.base import Base, metadata
from airflow_slotgroups.models.coordinator import SlotCoordinator
from airflow_slotgroups.models.group import SlotGroup, SlotGroupChange
from airflow_slotgroups.models.request import SlotRequest

__all__ = ["Base", "SlotCoordinator", "SlotGroup", "SlotGroupChange", "SlotRequest", "metadata"]
