"""The composition root: what Airflow loads."""
