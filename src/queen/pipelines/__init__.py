"""Pipelines, as far as they do not depend on the engine that runs their tasks."""
