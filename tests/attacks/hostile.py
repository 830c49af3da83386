"""Generate hostile requests from a seed. Each is sent on its own connection."""

import base64
import gzip
import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from queen.server.http.call import API, Route
from queen.server.routes.table import ROUTES
from tests.attacks import routes
from tests.attacks.world import Owned
from tests.support.forgeries import forged

MEBIBYTE: Final = 2**20
_GZIP: Final = "content-encoding: gzip"
_CHANGES: Final = [route for route in ROUTES if route.method != "GET"]
_TAKERS: Final = [route for route in _CHANGES if route.body is not None and "{" not in route.path]
_BODILESS: Final = [route for route in ROUTES if route.body is None and "{" not in route.path]


class Attack(NamedTuple):
    """One request, and how its client behaves."""

    kind: str
    request: bytes
    echoes: tuple[str, ...] = ()
    """Foreign names in the request: an error may repeat them."""
    is_read: bool = True
    """False: the client does not read the response."""
    is_ended: bool = True
    """False: the client stops before the end of the request and waits."""


class Loot(NamedTuple):
    """Everything that the attacker knows: names and ids of the victim, but no secrets."""

    owned: Owned
    lease_id: str
    key_id: str
    cursors: dict[str, list[str]]
    """Cursors of the victim, by path."""
    full_queue: str
    """A queue of the attacker with as many bytes as one pop may return."""


class Attacker:
    """Generates attacks. The same seed generates the same ones."""

    def __init__(self, seed: int, tokens: Sequence[str], loot: Loot) -> None:
        self._rng = random.Random(seed)
        self._tokens = tokens
        self._loot = loot
        self._forged = [*forged().values()]
        self._names = tuple(dict.fromkeys(map(str, (*loot.owned, loot.lease_id, loot.key_id))))
        self._kinds: list[tuple[int, Callable[[], Attack]]] = [
            (10, self._nested),
            (6, self._compressed),
            (6, self._crowded),
            (1, self._unread),
            (3, self._unfinished),
            (20, self._cursor),
            (14, self._token),
            (20, self._foreign_look),
            (20, self._foreign_change),
        ]

    def attack(self) -> Attack:
        weights, kinds = zip(*self._kinds, strict=True)
        return self._rng.choices(kinds, weights)[0]()

    def _nested(self) -> Attack:
        """Brackets: many, deep, unclosed, in strings, and far more than a payload may have."""
        rng = self._rng
        if rng.random() < 0.05:
            return self._post("nested", f"{API}/push", _bracket_bomb(), _GZIP)
        count = rng.randrange(100, 100_000)
        payload = rng.choice(
            (
                b"[" * count + b"]" * count,
                b"[" * count,
                b"[" + b"[]," * count + b"0]",
                json.dumps('[{\\"' * count).encode(),
            )
        )
        body = b'{"items":[{"queue":"zeta.q","payload":%b}]}' % payload
        return self._post("nested", self._taker().path, body)

    def _compressed(self) -> Attack:
        """Bodies that inflate to a multiple of their size, also on routes without a body."""
        rng = self._rng
        bomb = _bomb(rng.choice((1, 8, 60, 200)) * MEBIBYTE)
        if rng.random() < 0.3:
            bomb = bomb[: rng.randrange(20, len(bomb))]
        route = rng.choice(_BODILESS) if rng.random() < 0.5 else self._taker()
        token = rng.choice((None, *self._tokens))
        raw = self._raw(route.method, route.path, bomb, _GZIP, token=token)
        if rng.random() < 0.1:
            return Attack("compressed", raw[:-1], is_ended=False)
        return Attack("compressed", raw)

    def _crowded(self) -> Attack:
        """More items than any route accepts."""
        rng = self._rng
        count = rng.choices((10_001, 200_000, 2_500_000), (6, 3, 1))[0]
        route = self._taker()
        assert route.body is not None
        lists = [
            field.encode_name
            for field in msgspec.structs.fields(route.body)
            if "list[" in str(field.type) or "tuple[" in str(field.type)
        ]
        name = rng.choice(lists or ["items"])
        item = rng.choice((b"{}", b"0", b'"a"', b'{"queue":"zeta.q","payload":0}'))
        return self._post("crowded", route.path, _repeated(name, item, count), _GZIP)

    def _unread(self) -> Attack:
        """Pop as much as possible for a new group each time, without reading the response."""
        group = f"zeta-{self._rng.getrandbits(64):x}"
        asked = urlencode({"consumerGroup": group, "batch": 10_000, "partitions": 100})
        path = f"{API}/pop/queue/{self._loot.full_queue}?{asked}"
        raw = self._raw("GET", path, None, token=self._tokens[0])
        return Attack("unread", raw, is_read=False)

    def _unfinished(self) -> Attack:
        whole = self._raw("POST", f"{API}/push", b'{"items":[]}', token=self._tokens[0])
        return Attack("unfinished", whole[: self._rng.randrange(len(whole))], is_ended=False)

    def _cursor(self) -> Attack:
        """Cursors of the victim, damaged ones, and forged ones that point to its rows."""
        rng = self._rng
        path = rng.choice(list(self._loot.cursors))
        kept = self._loot.cursors[path]
        name = rng.choice(self._names)
        made_up: list[Any] = [name, rng.randrange(-(2**63), 2**63), rng.random(), "", None]
        cursor = rng.choice(
            (
                *kept[:1],
                *kept[-1:],
                _encoded(rng.sample(made_up, rng.randrange(1, 4))),
                _encoded([name]),
                "A" * rng.randrange(1, 2_000),
            )
        )
        query: dict[str, str | int] = {"cursor": cursor, "limit": 1}
        _, required = routes.call(path, self._loot.owned)
        mine = {key: "zeta.bills-0" if key == "queue" else value for key, value in required.items()}
        asked = f"{path}?{urlencode({**mine, **query})}"
        raw = self._raw("GET", asked, None, token=rng.choice(self._tokens))
        return Attack("cursor", raw, (*self._names, cursor))

    def _token(self) -> Attack:
        """Credentials that must be rejected."""
        rng = self._rng
        secret = f"{rng.getrandbits(256):064x}"
        token = rng.choice(
            (
                f"qk_{self._loot.key_id}_{secret}",
                f"qk_{secret[:12]}_{secret}",
                f"qk_{self._loot.key_id}",
                self._tokens[0][:-1],
                self._tokens[0].upper(),
                rng.choice(self._forged),
                "x" * rng.randrange(1, 20_000),
                "",
            )
        )
        route = rng.choice(ROUTES)
        path, echoes = self._filled(route)
        raw = self._raw(route.method, path, b"{}" if route.body else None, token=token)
        return Attack("token", raw, (*echoes, token))

    def _foreign_look(self) -> Attack:
        """Every GET route, with the victim's names in path and query."""
        rng = self._rng
        path = rng.choice(list(routes.CASES))
        asked, query = routes.call(path, self._loot.owned)
        route = routes.GETS[path]
        query |= rng.choice([*routes.filters(route, self._loot.owned), *routes.variants(route)])
        raw = self._raw("GET", f"{asked}?{urlencode(query)}", None, token=rng.choice(self._tokens))
        return Attack("foreign look", raw, self._names)

    def _foreign_change(self) -> Attack:
        """Every route that changes something, with the victim's names in path and body."""
        rng = self._rng
        route = rng.choice(_CHANGES)
        path, _ = self._filled(route)
        body = None if route.body is None else json.dumps(self._body(route.body)).encode()
        raw = self._raw(route.method, path, body, token=rng.choice(self._tokens))
        return Attack("foreign change", raw, self._names)

    def _body(self, type_: type[Any]) -> dict[str, Any]:
        known = self._fields()
        return {
            field.encode_name: known[field.encode_name]
            for field in msgspec.structs.fields(type_)
            if field.encode_name in known and (field.required or self._rng.random() < 0.5)
        }

    def _fields(self) -> dict[str, Any]:
        """A value for each field of a body that is a name."""
        rng, owned, lease_id = self._rng, self._loot.owned, self._loot.lease_id
        item = {"queue": owned.queue, "payload": rng.random()}
        ack = {"id": owned.message_id, "status": "completed", "leaseId": lease_id}
        ack["consumerGroup"] = owned.group
        token = str(rng.getrandbits(64))
        advance = {"type": "advance", "workflow": owned.workflow, "step": "fan", "token": token}
        job = {"queue": owned.jobs, "name": "job", "data": 1}
        operations = [{"type": "ack", **ack}, {"type": "push", "items": [item]}, advance]
        return {
            **{"queue": owned.queue, "namespace": owned.namespace, "task": owned.task},
            **{"id": owned.workflow, "name": owned.schedule, "partitionId": owned.partition_id},
            **{"transactionId": owned.transaction_id, "leaseId": lease_id, "leaseIds": [lease_id]},
            **{"consumerGroup": owned.group, "status": "completed", "scope": "all"},
            **{"items": [item], "acknowledgments": [ack], "jobs": [job]},
            "operations": rng.sample(operations, rng.randrange(1, 4)),
            **{"requiredLeases": [lease_id], "filter": {"queue": owned.queue}},
            "destination": {"queue": owned.queue, "partition": "p"},
            "steps": [{"name": "s", "queue": owned.jobs, "job": "j"}],
            **{"cron": "* * * * *", "payload": 1, "data": 1, "progress": 1, "toStart": True},
            **{"signal": "go", "enabled": True, "producerId": "billing", "sequence": 2**62},
            **{"key": "0", "permissions": ["admin"], "role": "admin"},
        }

    def _filled(self, route: Route) -> tuple[str, tuple[str, ...]]:
        """The path of a route with the victim's names in it."""
        owned = self._loot.owned
        id_ = {"jobs": owned.job, "dlq": owned.dead_letter, "tokens": self._loot.key_id}
        area = route.path.removeprefix(f"{API}/").partition("/")[0]
        values = {
            "queue": owned.jobs if area == "jobs" else owned.queue,
            "partition": "acme-0",
            "group": owned.group,
            "ref": self._rng.choice((owned.message_id, owned.partition_id)),
            "transactionId": owned.transaction_id,
            "partitionId": owned.partition_id,
            "workflow": owned.workflow,
            "step": "fan",
            "name": {
                "traces": owned.trace,
                "pipelines": owned.pipeline,
                "archives": owned.pipeline,
                "holds": f"archive:{owned.pipeline}",
            }.get(area, owned.schedule),
            "id": id_.get(area, owned.operation),
            "leaseId": self._loot.lease_id,
            "delivery": self._loot.lease_id,
        }
        path = route.path
        for name, value in values.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        assert "{" not in path, route.path
        return path, self._names

    def _taker(self) -> Route:
        return self._rng.choice(_TAKERS)

    def _post(self, kind: str, path: str, body: bytes, *headers: str) -> Attack:
        return Attack(kind, self._raw("POST", path, body, *headers, token=self._tokens[0]))

    @staticmethod
    def _raw(method: str, path: str, body: bytes | None, *headers: str, token: str | None) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "host: localhost", "connection: close", *headers]
        if token is not None:
            lines.append(f"authorization: Bearer {token}")
        if body is not None:
            lines += ["content-type: application/json", f"content-length: {len(body)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


@cache
def _bomb(size: int) -> bytes:
    """Blanks, which inflate a thousandfold."""
    return gzip.compress(b'{"items":[' + b" " * size, 9)


@cache
def _bracket_bomb() -> bytes:
    """One payload that consists of brackets, sixty times as large as allowed."""
    brackets = b"[]," * (20 * MEBIBYTE)
    return gzip.compress(b'{"items":[{"queue":"zeta.q","payload":[%b0]}]}' % brackets, 9)


@cache
def _repeated(name: str, item: bytes, count: int) -> bytes:
    return gzip.compress(b'{"%b":[%b]}' % (name.encode(), b",".join([item] * count)), 9)


def _encoded(place: list[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).rstrip(b"=").decode()
