"""Tools of this repository for running a real Airflow: not part of the distribution."""
