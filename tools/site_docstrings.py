"""An extension of griffe that turns reStructuredText in docstrings into Markdown."""

import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Ends the line before a literal block with one colon, because Markdown needs no second."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - of griffe
        """Change the docstring of an object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"::(\n\n +)", r":\1", obj.docstring.value)
