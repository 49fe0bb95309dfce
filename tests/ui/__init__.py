"""The page, in a real browser, against a real Airflow; and its components."""
