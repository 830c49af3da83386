"""All that users can call stays as it is, unless the file that lists it changes too."""

from tools.write_surface import SURFACE, lines


def test_the_public_surface_is_the_one_on_file() -> None:
    """After a wanted change: `make surface`, and a line in the changelog."""
    assert lines() == SURFACE.read_text("utf-8").splitlines()
