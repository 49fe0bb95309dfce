"""The only place that touches Airflow's internals: tables, locks, pools, task instances, DAGs, jobs, audit."""
