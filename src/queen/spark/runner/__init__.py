"""Run pipelines: sessions, tasks, and reports of their progress."""
