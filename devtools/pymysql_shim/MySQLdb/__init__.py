# ruff: noqa: N999 - the name is the one that Airflow imports
"""Stands in for mysqlclient, which needs a compiler: Airflow wants a module of this name on MySQL.

Airflow only registers a converter there; the connections are PyMySQL's, as the database URL says.
"""
