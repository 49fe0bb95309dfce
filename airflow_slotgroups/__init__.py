"""Slot groups: a queue manager in front of Airflow's pools.

Light on purpose: Airflow imports this package in every process, and DAG files do too.
"""

__version__ = "0.1.0"
