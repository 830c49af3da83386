"""Files for other tools: alert rules, dashboards, and deployments of this release."""
