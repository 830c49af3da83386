"""Long-running operations: run in steps, recorded, and resumed by another process."""
