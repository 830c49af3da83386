"""The public surface changes only together with the file that lists it."""

from tools.write_surface import SURFACE, lines


def test_the_public_surface_matches_the_file() -> None:
    """After an intended change, run `make surface` and add a line to the changelog."""
    assert lines() == SURFACE.read_text("utf-8").splitlines()
