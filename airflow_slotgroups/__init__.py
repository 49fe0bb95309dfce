"""Slot groups: a queue manager in front of Airflow's pools.

Light on purpose: Airflow imports this package in every process. What DAG files use is loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_slotgroups.operators.sections import AcquireSlotsOperator, HoldSlots, ReleaseSlotsOperator
    from airflow_slotgroups.operators.slot_args import slot_args

__version__ = "0.1.0"

__all__ = ["AcquireSlotsOperator", "HoldSlots", "ReleaseSlotsOperator", "slot_args"]


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.operators"), name)
