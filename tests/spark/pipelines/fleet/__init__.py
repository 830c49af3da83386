"""Fleets of pipelines, their lineage, and transforms."""
