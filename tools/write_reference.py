"""
Write the generated blocks of docs/reference: settings, options, errors, metrics, log events, SQL.

A block begins with `<!-- generated: NAME -->` and ends with `<!-- end of NAME -->`. Text outside of
blocks is written by people.

Usage::

    python -m tools.write_reference
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from queen import errors, setting_fields, telemetry
from queen.errors import outcomes
from queen.settings import Settings
from queen.wire.field_docs import field_docs
from queen.wire.options import QueueOptions, RateLimit, columns_of_options
from tools.sql_reference import functions, public_functions, roles, view_columns

REFERENCE: Final = Path(__file__).parents[1] / "docs" / "reference"
BLOCK: Final = re.compile(
    r"(<!-- generated: ([\w ,-]+) -->\n).*?(<!-- end of \2 -->)", flags=re.DOTALL
)
_LINKS: Final = {
    "QUEEN_ENVIRONMENT": ("dashboard", "../operate/dashboard.md"),
    "QUEEN_TRACE_URL": ("dashboard", "../operate/dashboard.md"),
    "QUEEN_KEY_GRACE_SECONDS": (
        "whole outage",
        "../operate/outages.md#authentication-during-an-outage",
    ),
    "OIDC_CLIENT_ID": ("dashboard", "../operate/dashboard.md"),
    "PG_USER": ("use a separate role", "../security/secure.md#1-a-role-for-the-server"),
    "PG_SSLMODE": ("Use `verify-full`", "../security/secure.md#tls-to-postgresql"),
    "QUEEN_AUDIT_RETENTION_HOURS": ("audit log", "../security/secure.md#7-audit-log"),
    "QUEEN_ANALYTICS_RETENTION_HOURS": ("rollups", "../spark/rollup.md"),
}
"""A phrase in the description of a setting, and the page that it links to."""
_DETAILS: Final = {
    "MessagesDamaged": "[Troubleshooting](../operate/troubleshooting.md#26-messages-are-damaged)",
    "Masked": "[Masked payloads](http.md#masked-payloads)",
    "CrossShard": "[Scale out](../operate/several-databases.md#which-queues-are-together)",
    "DataLost": "[Archive a queue](../spark/archive.md)",
    "LakeDiverged": "[Archive a queue](../spark/archive.md)",
    "LakeUnavailable": "[Archive a queue](../spark/archive.md#correct-a-wrong-location)",
    "QueueHeld": "[Archive a queue](../spark/archive.md#messages-that-the-archive-missed)",
    "DatabaseUnavailable": "[Database outages](../operate/outages.md)",
    "EncryptionUnavailable": "[Encrypt queues](../security/encryption.md)",
    "Unauthorized": "[Secure a server](../security/secure.md)",
    "QueueFull": "[Queue options](queue-options.md)",
}
"""Errors that a page explains in detail."""
_MANY: Final = 2**31 - 1
"""A limit that no reader reaches."""
_EFFECTS: Final = {
    True: "The request was applied.",
    False: "The request had no effect.",
    None: "The request may have been applied.",
}


def pages() -> dict[Path, str]:
    """Return the pages with blocks, as they should be."""
    found: dict[Path, str] = {}
    for path in sorted(REFERENCE.glob("*.md")):
        text = path.read_text("utf-8")
        if BLOCK.search(text):
            found[path] = rendered(text)
    return found


def rendered(page: str) -> str:
    """Return a page with its blocks written again."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{_block(found[2])}\n{found[3]}", page)


def _block(name: str) -> str:
    kind, _, argument = name.partition(", ")
    writers: dict[str, Callable[[], str]] = {
        "options": lambda: _options(QueueOptions),
        "rate limit": lambda: _options(RateLimit),
        "columns": _columns,
        "errors": _errors,
        "metrics": _metrics,
        "log events": _events,
        "SQL for applications": public_functions,
        "SQL functions": functions,
        "SQL roles": roles,
        "SQL view": view_columns,
    }
    return _settings(argument) if kind == "settings" else writers[name]()


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    names = [*head]
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("| --- ", "|---")


def setting_groups() -> dict[str, list[str]]:
    """Return the names of the settings, by the comment above them."""
    source = Path(setting_fields.__file__ or "").read_text("utf-8")
    groups: dict[str, list[str]] = {}
    names: list[str] = []
    for title, name in re.findall(r"^    (?:# (.+)\.|(\w+): .*)$", source, flags=re.MULTILINE):
        if title:
            names = groups.setdefault(title, [])
        else:
            names.append(name)
    return groups


def _settings(title: str) -> str:
    group = next(names for each, names in setting_groups().items() if each.startswith(title))
    docs = field_docs(Settings)
    defaults = msgspec.to_builtins(Settings())
    variables = dict(
        zip(Settings.__struct_fields__, Settings.__struct_encode_fields__, strict=True)
    )
    rows: list[tuple[str, ...]] = []
    for name in group:
        variable = variables[name]
        phrase, url = _LINKS.get(variable, ("", ""))
        text = docs[name].replace(phrase, f"[{phrase}]({url})", 1) if phrase else docs[name]
        if phrase and phrase not in docs[name]:
            raise ValueError(f"{variable}: the description does not contain {phrase}")
        rows.append((f"`{variable}`", _value(defaults[variable]), text))
    return table(("Variable", "Default", "Meaning"), rows)


def _value(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if value is None:
        return "unset"
    if value == "":
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _options(struct: type[msgspec.Struct]) -> str:
    docs = field_docs(struct)
    rows: list[tuple[str, ...]] = []
    for field in msgspec.structs.fields(struct):
        text, _, default = docs[field.name].removesuffix(".").partition(". Default: ")
        if not default and not field.required and isinstance(field.default, str):
            default = field.default
        if text.startswith("Alias of "):
            default = f"that of {text.removeprefix('Alias of ')}"
        shown = f"`{default}`" if re.fullmatch(r"[\w.]+", default) else default
        shown = "required" if field.required else shown
        rows.append((f"`{field.encode_name}`", shown, _range(field.type), f"{text}."))
    return table(("Option", "Default", "Allowed", "Meaning"), rows)


def _columns() -> str:
    columns = columns_of_options()
    names = {field.name: field.encode_name for field in msgspec.structs.fields(QueueOptions)}
    rows = ((f"`{names[name]}`", f"`{column}`") for name, column in columns.items())
    return table(("Option", "Column"), rows)


def _range(kind: Any) -> str:  # noqa: ANN401 - a type
    """Return the allowed values of a type."""
    if get_origin(kind) is dict:
        return "a JSON Schema"
    if kind is RateLimit:
        return "[an object](#rate-limit)"
    if get_origin(kind) in (Union, UnionType):
        found = [_range(each) for each in get_args(kind)]
        return next((each for each in found if each), "")
    meta = next((each for each in get_args(kind)[1:] if isinstance(each, msgspec.Meta)), None)
    if meta is not None and meta.max_length is not None:
        return f"{meta.min_length or 0:,} to {meta.max_length:,} characters"
    if meta is not None:
        is_bounded = meta.le is not None and meta.le < _MANY
        if meta.gt is not None:
            return f"above {meta.gt:,}, up to {meta.le:,}" if is_bounded else f"above {meta.gt:,}"
        return f"{meta.ge:,} to {meta.le:,}" if is_bounded else f"{meta.ge:,} or more"
    if kind is bool:
        return "`true`, `false`"
    values = [each for each in get_args(kind) if isinstance(each, str)]
    return ", ".join(f"`{each}`" for each in values)


def error_classes() -> list[type[errors.QueenError]]:
    """Return all error classes that are raised, by name. Families only group them."""
    families = {errors.ApiError, errors.RequestError, errors.ServiceError}
    found = {errors.QueenError, *_subclasses(errors.QueenError)} - families
    return sorted(found, key=lambda each: each.__name__)


def _subclasses(root: type[errors.QueenError]) -> Iterator[type[errors.QueenError]]:
    for branch in root.__subclasses__():
        yield branch
        yield from _subclasses(branch)


def _errors() -> str:
    found = error_classes()
    index = table(
        ("Code", "HTTP status", "Class"),
        (
            (f"`{each.code}`", _status(each) or "\u2013", f"[`{each.__name__}`](#{_anchor(each)})")
            for each in sorted(found, key=lambda each: each.code)
        ),
    )
    return index + "".join(_error(each) for each in found)


def _error(error: type[errors.QueenError]) -> str:
    bases = " and ".join(f"`{base.__name__}`" for base in error.__bases__)
    place = "the base class" if error is errors.QueenError else f"a subclass of {bases}"
    effect = "" if is_outcome(error) else f" {_EFFECTS[error.applied]}"
    status = f"HTTP {_status(error)}" if _status(error) else "not sent over HTTP"
    details = f"\nSee {_DETAILS[error.__name__]}.\n" if error.__name__ in _DETAILS else ""
    return f"""
## {error.__name__}

`{error.code}`, {status}, {place}.{effect}

**Cause:** {error.default_message}

**Remedy:** {error.remedy}
{details}"""


def is_outcome(error: type[errors.QueenError]) -> bool:
    """Whether an error reports the end of a job, workflow or pipeline, and not of a request."""
    return error.__name__ in vars(outcomes) and error not in (errors.QueenError, errors.PushError)


def _status(error: type[errors.QueenError]) -> str:
    return "" if error.is_local else str(error.http_status)


def _anchor(error: type[errors.QueenError]) -> str:
    return error.__name__.lower()


def _metrics() -> str:
    rows = (
        (
            f"`{metric.name}`",
            metric.kind,
            ", ".join(f"`{each}`" for each in metric.labels) or "\u2013",
            metric.help,
        )
        for metric in telemetry.METRICS
    )
    return table(("Metric", "Kind", "Labels", "Meaning"), rows)


def _events() -> str:
    rows = ((f"`{name}`", text) for name, text in telemetry.EVENTS.items())
    return table(("Event", "Meaning"), rows)


def main() -> None:
    for path, text in pages().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
