"""Manifests are strict: every problem is reported with its line and a remedy."""

from typing import Any

import jsonschema_rs
import pytest
import yaml

from queen.cli.apply.documents import documents_of
from queen.cli.apply.manifest import Manifest, manifest_of
from queen.cli.apply.schema import schema
from queen.cli.support.exit_codes import FileTrouble

WHOLE = """\
manager: shop
queues:
  orders: &ours
    namespace: shop
    leaseTime: 5m
    retryDelay: 2s
    rateLimit: {max: 5, durationMillis: 1s, per: partition}
    schema: {type: object, required: [id]}
  mails:
    <<: *ours
    leaseTime: 60.5
  "on": {ordered: false, maxPayloadBytes: null}
  empty:
schedules:
  nightly:
    queue: orders
    cron: 0 8 * * 1-5
    timeZone: Europe/Rome
    payload: {at: 12:30, day: 2026-01-31, ok: yes}
    ttlSeconds: 2h
  bare: {queue: orders, cron: "@daily"}
keys:
  worker:
    permissions: [consume, browse]
    scopes: [{queue: orders}, {namespace: shop*}]
    expiresAt: 2030-01-01T00:00:00Z
  reader: {role: read-only}
"""


def manifest(*texts: str) -> Manifest:
    return manifest_of(each for text in texts for each in documents_of("queen.yaml", text))


def test_a_whole_manifest_is_read() -> None:
    found = manifest(WHOLE)

    orders, mails = found.queues["orders"], found.queues["mails"]
    assert (orders.lease_time, orders.retry_delay, orders.namespace) == (300, 2000, "shop")
    assert (mails.lease_time, mails.rate_limit) == (60.5, orders.rate_limit)
    assert set(found.queues) == {"orders", "mails", "on", "empty"}
    nightly = found.schedules["nightly"]
    # The values of YAML 1.2 and JSON, not of YAML 1.1.
    assert bytes(nightly.payload) == b'{"at":"12:30","day":"2026-01-31","ok":"yes"}'
    assert (nightly.ttl_seconds, bytes(found.schedules["bare"].payload)) == (7200, b"null")
    assert found.keys["worker"].permissions == ["consume", "browse"]


def test_documents_are_combined() -> None:
    found = manifest("manager: shop\nqueues: {a: }\n---\nqueues: {b: }\n---\n", "manager: shop\n")

    assert (found.manager, set(found.queues)) == ("shop", {"a", "b"})


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("quues: {}", "queen.yaml:2: quues: unknown field; did you mean queues?"),
        ("schedules: {s: {queue: q, cron: 61 * * * *}}", "schedules.s.cron: cron '61 * * * *'"),
        ("schedules: {s: {queue: q, cron: 0 0 31 2 *}}", "schedules.s.cron: "),
        (
            'schedules: {s: {queue: q, cron: "@daily", timeZone: Mars/Base}}',
            "schedules.s.timeZone: timeZone 'Mars/Base' is unknown",
        ),
        ("queues: {a: {leesTime: 5}}", "queues.a.leesTime: unknown field; did you mean leaseTime?"),
        ("queues: {a: {lease_time: 5}}", "unknown field; did you mean leaseTime?"),
        ("queues: {a: {managedBy: x}}", "apply sets it to the manager of this file"),
        ("queues: {a: {deadLetterQueue: false}}", "unknown field; write dlqAfterMaxRetries"),
        ("queues: {a: {options: {}}}", "write the options directly below the name of the queue"),
        ("queues: {a: {leaseTime: -1}}", "queues.a.leaseTime: must be a number > 0"),
        ("queues: {a: {leaseTime: 5 minutes}}", "leaseTime='5 minutes' is not a duration"),
        ("queues: {a: {rateLimit: {max: 1, durationMilis: 9}}}", "did you mean durationMillis?"),
        ("queues: {a: {rateLimit: {max: 1}}}", "the field durationMillis is missing"),
        ("queues:\n  a:\n    ttl: 1\n    leaseTime: x", "queen.yaml:5: queues.a.leaseTime: "),
        ("queues: {a: {ordered: yes}}", "ordered: must be true or false, but yes is a string"),
        ("queues: {a: {retryLimit: 1.5}}", "must be a whole number, not a number"),
        ("apiVersion: v1", "unknown field; use manager, queues, schedules or keys"),
        ("queues:\n\ta: {}", "queen.yaml:3: invalid YAML: found character that cannot start any"),
        ("queues:\n\ta: {}", "Indent with spaces instead of tabs"),
        ("queues: {a: {ttl: 5}\n", "flow mapping that starts in line 2"),
        ("queues: {a: 5}", "queues.a: must be a mapping"),
        ("queues: [a]", "queues: must be a mapping"),
        ("queues: {__a: }", "a leading __ and outer spaces are not allowed"),
        ("queues: {a: , a: }", "queen.yaml:2: a is defined twice"),
        ("queues: {a: }\n---\nqueues: {a: }", "queen.yaml:4: queues.a: defined twice"),
        ("queues: {5: }", 'queen.yaml:2: 5 is not a string: write "5"'),
        ("queues: {[a]: }", "a key must be a string"),
        ("queues: {a: {schema: !!binary aGk=}}", "the tag tag:yaml.org,2002:binary is not"),
        ("queues: {a: {ttl: 1e999}}", "the number is too large"),
        ("queues: &q {a: *q}", "an alias refers to a value that contains it"),
        ("queues: {<<: [5]}", "<< needs a mapping"),
        ("queues: {a: }}", "queen.yaml:2:"),
        ("schedules: {s: {queue: q}}", "schedules.s: the field cron is missing"),
        ("schedules: {s: {queue: q, cron: * * * * *}}", 'in quotes, for example "* * * * *"'),
        (
            "schedules: {s: {queue: q, cron: x, missed: no}}",
            "missed: must be one of skip, once, all",
        ),
        ("schedules: {s: {queue: q, cron: x, ttlSeconds: 2 h}}", "'2 h' is not a duration"),
        ("keys: {k: {}}", "keys.k: a key needs a role or permissions"),
        ("keys: {k: {role: admin, name: x}}", "the name is the key of this mapping"),
        ("keys: {k: {role: admin, scopes: [{}]}}", "keys.k.scopes[0]: a scope needs a queue"),
        ("keys: {k: {role: admin, scopes: [{quue: a}]}}", "keys.k.scopes[0].quue: unknown field"),
        (
            "keys: {k: {role: admin, expiresAt: tomorrow}}",
            "keys.k.expiresAt: must be a time with a time zone",
        ),
        (
            "keys: {k: {role: amin}}",
            "role: must be one of admin, read-write, read-only, write-only",
        ),
        ("keys: {k: {permissions: [brows]}}", "permissions[0]: must be one of produce, consume,"),
        ("manager: other", "queen.yaml:2: manager is defined twice"),
        ("---\nmanager: other", "all documents need the same manager: shop (queen.yaml:1), other"),
        ("---\nmanager: 5", "manager: must be a string, not a whole number"),
        ('---\nmanager: "a\\n"', "manager: must not contain control characters"),
        ("--- 5", "queen.yaml:2: must be a mapping"),
        ("a: \0", "queen.yaml: invalid YAML: unacceptable character"),
    ],
)
def test_a_problem_is_reported_with_its_place(line: str, problem: str) -> None:
    with pytest.raises(FileTrouble) as raised:
        manifest(f"manager: shop\n{line}\n")

    assert problem in str(raised.value)


def test_all_problems_are_reported_together() -> None:
    lines = "".join(f"  q{number}: {{leesTime: 5}}\n" for number in range(30))

    with pytest.raises(FileTrouble) as raised:
        manifest(f"manager: shop\nqueues:\n{lines}")

    found = str(raised.value).splitlines()
    assert found[0].startswith("queen.yaml:3: queues.q0.leesTime: ")
    assert (len(found), found[-1]) == (21, "and 10 more problems")


@pytest.mark.parametrize("text", ["", "queues: {a: }", "---\n---\n"])
def test_a_manifest_needs_a_manager(text: str) -> None:
    with pytest.raises(FileTrouble, match="manager is missing"):
        manifest(text)


def test_nested_aliases_cannot_fill_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]

    with pytest.raises(FileTrouble, match="more than 1,000,000 values"):
        manifest("\n".join(lines))


@pytest.mark.parametrize("levels", [101, 3_000, 200_000])
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ("{a: ", "}")])
def test_deeply_nested_values_are_rejected(levels: int, start: str, end: str) -> None:
    with pytest.raises(FileTrouble, match=r"queen\.yaml:2: values are nested more than 100 levels"):
        manifest("manager: shop\nqueues: " + start * levels + end * levels)


def test_aliases_cannot_nest_values_deeply_either() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 1_000))]
    with pytest.raises(FileTrouble, match="values are nested more than 100 levels"):
        manifest("\n".join(lines))


def test_the_schema_accepts_and_rejects_the_same_manifests() -> None:
    validator = jsonschema_rs.validator_for(schema())

    def is_valid(text: str) -> bool:
        (document,) = documents_of("queen.yaml", text)
        return validator.is_valid(document.value)

    assert is_valid(WHOLE)
    wrong = (
        "quues: {}",
        "queues: {a: {leesTime: 5}}",
        "queues: {a: {managedBy: x}}",
        "queues: {a: {deadLetterQueue: false}}",
        "queues: {a: {leaseTime: -1}}",
        "queues: {a: {leaseTime: 5 minutes}}",
        "queues: {a: {rateLimit: {max: 1}}}",
        "queues: [a]",
        "schedules: {s: {queue: q}}",
        "keys: {k: {role: admin, name: x}}",
        "keys: {k: {role: amin}}",
    )
    assert [line for line in wrong if is_valid(f"manager: shop\n{line}\n")] == []


def test_the_core_schema_of_yaml_has_the_values_of_json() -> None:
    text = "[~, null, True, FALSE, 1, -1, +1, 08, 0o17, 0x1f, 1.5, .5, 1., 1e3, -1.5E-3, no, .nan]"
    (document,) = documents_of("file", text)

    expected: list[Any] = [None, None, True, False, 1, -1, 1, 8, 15, 31]
    expected += [1.5, 0.5, 1.0, 1000.0, -0.0015, "no", ".nan"]
    assert document.value == expected
    assert [type(each) for each in document.value] == [type(each) for each in expected]
    assert yaml.safe_load("no") is False  # PyYAML follows YAML 1.1.
