"""The trigger on which acquires wait; its class path is stored in databases, and never changes."""

from airflow_slotgroups.triggers.slots import SlotTrigger

__all__ = ["SlotTrigger"]
