"""Queen's tests, and the helpers that benchmarks share with them."""
