"""What we do inside Airflow's own processes: start a coordinator beside each scheduler."""
