"""Many pipelines from one file, in one process: declaration, shared polls, and runs."""
