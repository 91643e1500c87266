"""What the DAGs share. Only ``operators``, ``sensors`` and ``dag_parts`` import Airflow; the rest is plain Python."""
