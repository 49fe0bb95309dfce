"""Acceptance: scenarios of the design on a real Airflow with a real scheduler and LocalExecutor."""
