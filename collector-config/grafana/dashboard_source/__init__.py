"""The dashboards as code: `python -m dashboard_source` in the folder above writes `dashboards/*.json`."""
