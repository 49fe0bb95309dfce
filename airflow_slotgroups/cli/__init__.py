"""`airflow slotgroups ...`."""
