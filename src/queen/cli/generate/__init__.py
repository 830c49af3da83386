"""Alert rules and Grafana dashboards."""
