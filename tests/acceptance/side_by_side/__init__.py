"""Scenarios that share an Airflow a database: each has groups and DAGs of its own (see `board`)."""
