"""Decoding a body level by level gives the same result as decoding it directly."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from queen import errors
from queen.server.decoding import bodies as decoding, decoder
from queen.server.decoding.bodies import Bodies
from queen.server.decoding.decoder import decode
from queen.server.routes.table import ROUTES
from queen.wire.access import TokenRequest
from queen.wire.job_queues import RenewRequest
from queen.wire.jobs import AddJobs
from queen.wire.messages import AckRequest, PushRequest
from queen.wire.options import ConfigureRequest
from queen.wire.transactions import TransactionRequest
from queen.wire.workflows import WorkflowRequest

COMMON = Bodies(100)
TEXT = st.text(max_size=6)
JSON = st.recursive(
    st.none() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ITEM = st.fixed_dictionaries(
    {"queue": TEXT, "payload": JSON},
    optional={"partition": TEXT, "headers": st.dictionaries(TEXT, TEXT), "priority": JSON},
)
ACK = st.fixed_dictionaries({}, optional={"id": TEXT, "status": TEXT, "result": JSON, "no": JSON})
JOB: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: st.fixed_dictionaries(
        {"queue": TEXT, "name": TEXT},
        optional={"data": JSON, "metadata": JSON, "chain": st.lists(JOB, max_size=2)},
    )
)
STEP = st.fixed_dictionaries(
    {"queue": TEXT, "job": TEXT},
    optional={"over": JSON, "data": JSON, "after": st.lists(TEXT), "compensate": JSON},
)
OPERATION = st.one_of(
    ACK.map(lambda each: {"type": "ack", **each}),
    st.lists(ITEM, max_size=3).map(lambda each: {"type": "push", "items": each}),
    st.fixed_dictionaries({"type": st.sampled_from(["advance", "other"]) | JSON, "step": TEXT}),
    JSON,
)
BODIES = st.one_of(
    st.tuples(st.just(PushRequest), st.fixed_dictionaries({"items": st.lists(ITEM)})),
    st.tuples(st.just(AckRequest), st.fixed_dictionaries({"acknowledgments": st.lists(ACK)})),
    st.tuples(st.just(AddJobs), st.fixed_dictionaries({"jobs": st.lists(JOB, max_size=3)})),
    st.tuples(st.just(RenewRequest), st.fixed_dictionaries({"leaseIds": st.lists(TEXT)})),
    st.tuples(
        st.just(TransactionRequest), st.fixed_dictionaries({"operations": st.lists(OPERATION)})
    ),
    st.tuples(
        st.just(WorkflowRequest), st.fixed_dictionaries({"name": TEXT, "steps": st.lists(STEP)})
    ),
    st.tuples(st.sampled_from([PushRequest, ConfigureRequest, TokenRequest]), JSON),
)


@pytest.fixture(scope="module", autouse=True)
def every_level() -> Any:  # noqa: ANN401 - a generator
    """Bodies are small here, so lower the limit of direct decoding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_DIRECT_VALUES", 1)
        patch.setattr(decoding, "_ITEM_VALUES", 0)
        yield


def level_by_level(raw: bytes, type_: type[Any], max_items: int = 100) -> Any:  # noqa: ANN401 - depends on the type
    bodies = COMMON if max_items == 100 else Bodies(max_items)
    return asyncio.run(bodies.decode(raw, type_, lambda size: None))


def outcome(work: Any, raw: bytes, type_: type[Any]) -> Any:  # noqa: ANN401 - depends on the type
    """The decoded body, or the type of its error."""
    try:
        return work(raw, type_)
    except errors.RequestError as error:
        return type(error)


@given(BODIES)
@settings(max_examples=150, deadline=None)
def test_both_decoders_have_the_same_result(body: tuple[type[Any], Any]) -> None:
    type_, value = body
    raw = msgspec.json.encode(value)

    assert outcome(level_by_level, raw, type_) == outcome(decode, raw, type_)


def test_flat_items_are_counted_by_a_common_field_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_DIRECT_VALUES", 1_000)
    monkeypatch.setattr(decoding, "_SEARCHED_VALUES", 0)
    held: list[int] = []

    def values(*items: bytes) -> int:
        """The number of values that this push is charged for."""
        held.clear()
        raw = b'{"items":[%b]}' % b",".join(items)
        asyncio.run(Bodies(10).decode(raw, PushRequest, held.append))
        return sum(held) // 100

    rich = b'{"queue":"q","payload":[%b]}' % b",".join([b"1"] * 50)
    assert values(rich, rich) == 8
    # If the search is ambiguous, all values are charged.
    assert values(rich, b'{"queue":"q","payload":{"headers":1}}') == 52
    assert values(rich, b'{"queue":"q","payload":"\\u0068"}') == 52
    assert values(rich, *[b'{"queue":"q","payload":"queue"}'] * 9) == 68


@pytest.mark.parametrize(
    "raw",
    [
        b'{"items":[{"queue":"q","payload":1},{"queue":"q","payload":1,"headers":{"a":1,"b":2}}]}',
        b'{"items":[{"queue":"q","payload":1},{"queue":7,"payload":1,"traceId":null}]}',
        b'{"items":[{"queue":"q","payload":1},{"queue":"q","traceId":null}]}',
        b'{"items":[{"queue":"q","payload":1},{"queue":"q","payload":1,"no":1}]}',
        b'{"items":{"a":1,"b":2,"c":3}}',
        b'{"items":[],"no":1,"producerId":"p"}',
    ],
)
def test_both_decoders_report_the_same_error(raw: bytes) -> None:
    with pytest.raises(errors.BadRequest) as at_once:
        decode(raw, PushRequest)
    with pytest.raises(errors.BadRequest) as by_level:
        level_by_level(raw, PushRequest)

    assert str(by_level.value) == str(at_once.value)
    assert by_level.value.members == at_once.value.members


def test_the_number_of_items_in_a_list_is_limited() -> None:
    item = b'{"queue":"q","payload":[1,2,3]}'

    assert len(level_by_level(b'{"items":[%b]}' % b",".join([item] * 5), PushRequest, 5).items) == 5
    with pytest.raises(errors.TooManyItems, match="items: more than 5 items"):
        level_by_level(b'{"items":[%b]}' % b",".join([item] * 6), PushRequest, 5)


def test_limits_of_a_type_apply_level_by_level() -> None:
    scope = b'{"queue":"a","namespace":"b"}'
    raw = b'{"name":"n","role":"admin","scopes":[%b]}' % b",".join([scope] * 101)

    with pytest.raises(errors.BadRequest, match="length <= 100"):
        level_by_level(raw, TokenRequest)


def test_the_number_of_values_in_all_items_is_limited() -> None:
    headers = b",".join(b'"%d":""' % n for n in range(300))
    item = b'{"queue":"q","payload":0,"headers":{%b}}' % headers
    raw = b'{"items":[%b]}' % b",".join([item] * 2)

    with pytest.raises(errors.BadRequest, match="more than 500 values"):
        level_by_level(raw, PushRequest, 5)


@pytest.mark.parametrize("type_", sorted({r.body for r in ROUTES if r.body}, key=str))
def test_every_body_of_a_route_can_be_decoded_level_by_level(type_: type[Any]) -> None:
    """The level-by-level type can be built, and it rejects an unknown object too."""
    with pytest.raises(errors.RequestError):
        level_by_level(b'{"unknown":1,"other":2,"third":3}', type_)


@pytest.mark.parametrize("type_", dict.fromkeys(route.body for route in ROUTES if route.body))
def test_a_long_list_is_rejected_in_every_field_without_one(type_: type[Any]) -> None:
    for field in msgspec.structs.fields(type_):
        body = b'{"%b":[%b]}' % (field.encode_name.encode(), b",".join([b"0"] * 60_000))
        if "Raw" not in str(field.type):  # Raw JSON may be any list.
            with pytest.raises(errors.RequestError):
                asyncio.run(COMMON.decode(body, type_, lambda _: None))


def test_decoding_again_creates_no_new_decoder() -> None:
    """Decoders are cached, so each type must be created once."""
    operation = b'{"type":"ack","id":"1"}'
    raw = b'{"operations":[%b]}' % b",".join([operation] * 3)
    level_by_level(raw, TransactionRequest)
    before = len(decoder._DECODERS)  # pyright: ignore[reportPrivateUsage] - the cached decoders

    level_by_level(raw, TransactionRequest)

    assert len(decoder._DECODERS) == before  # pyright: ignore[reportPrivateUsage] - as above
