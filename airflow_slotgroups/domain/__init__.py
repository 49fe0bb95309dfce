"""Pure Python: what a slot group is and how it decides. Imports nothing of Airflow, SQLAlchemy or the rest."""
