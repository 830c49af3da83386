"""Results of the long tests, as `make test-shards` prints them."""

import json


def report(test: str, **values: object) -> None:
    """Print one line of JSON. The line before it belongs to pytest."""
    print("\n" + json.dumps({"test": test, **values}), flush=True)
