"""What DAG files use: arguments for tasks, and sections that hold slots (DESIGN section 5)."""

from airflow_slotgroups.operators.sections import AcquireSlotsOperator, HoldSlots, ReleaseSlotsOperator
from airflow_slotgroups.operators.slot_args import slot_args

__all__ = ["AcquireSlotsOperator", "HoldSlots", "ReleaseSlotsOperator", "slot_args"]
