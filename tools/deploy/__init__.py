"""Writes the generated files in deploy/: compose, monitoring, and files of the Helm chart."""
