"""Encrypted data can only be decrypted unchanged and in its own place."""

import os

import msgspec
import pytest

from queen import errors
from queen.codec.encryption.keys import (
    OVERHEAD_BYTES,
    DataKey,
    Keyring,
    Wrapped,
    holds_sealed,
    is_sealed,
    key_id_of,
    parse_keys,
)
from queen.codec.ids import NUMBER_BITS
from queen.codec.segment import Segment, encode, ends_of
from queen.engine.encryption.rotation import keyring_of
from queen.settings import Settings

KEY = DataKey(7, 3, bytes(range(32)))
PAYLOADS = [b'{"n":1}', b"null", b'"' + b"x" * 10_000 + b'"']


def test_a_payload_round_trips() -> None:
    sealed = KEY.seal(5, PAYLOADS)
    assert KEY.open_all(5, sealed) == PAYLOADS
    assert [KEY.open(5, each) for each in sealed] == [(each, None) for each in PAYLOADS]
    assert [len(each) for each in sealed] == [len(each) + OVERHEAD_BYTES for each in PAYLOADS]
    assert {key_id_of(each) for each in sealed} == {7}


def test_the_largest_partition_id_encrypts() -> None:
    sealed = KEY.seal(2**63 - 1, PAYLOADS)
    assert KEY.open_all(2**63 - 1, sealed) == PAYLOADS


def test_a_payload_of_an_earlier_release_decrypts() -> None:
    stored = "010000000007000102030405060708090a0b3c20b839ffd4bfc9bc98466032f6f7fe08131cce881c1b"
    assert KEY.open(5, bytes.fromhex(stored)) == (b'{"n":1}', None)


def test_a_segment_encrypts_like_its_payloads() -> None:
    _, plain_ends = encode(PAYLOADS)
    body, ends = KEY.seal_segment(5, PAYLOADS, plain_ends)
    assert ends == ends_of(KEY.seal(5, PAYLOADS))
    segment = Segment(xid=0, count=3, body=body, ends=ends, extras=None)
    assert KEY.open_all(5, segment.payloads(0, 3)) == PAYLOADS


def test_a_raw_part_of_a_request_encrypts_like_bytes() -> None:
    raw = msgspec.json.decode(b'[{"a": 1}]', type=list[msgspec.Raw])
    (sealed,) = KEY.seal(5, raw)  # pyright: ignore[reportArgumentType] - Raw is a buffer
    assert KEY.open(5, sealed) == (b'{"a": 1}', None)


def test_payload_and_extra_are_encrypted_together() -> None:
    sealed = KEY.seal_with_extra(5, b"1", b'{"headers":{"a":"b"}}')
    assert KEY.open(5, sealed) == (b"1", b'{"headers":{"a":"b"}}')
    with pytest.raises(errors.EncryptionUnavailable):
        KEY.open_all(5, [sealed])


def test_json_is_never_taken_for_encrypted_data() -> None:
    assert not is_sealed(b"1")
    assert not is_sealed(b"")
    assert not holds_sealed(b'{"a":"\\u0001"}')
    assert holds_sealed(b"".join([b"1", *KEY.seal(5, [b"1"])]))


@pytest.mark.parametrize("partition_id", [6, 1 << NUMBER_BITS | 5])
def test_another_partition_or_slot_cannot_decrypt_it(partition_id: int) -> None:
    (sealed,) = KEY.seal(5, [b"1"])
    with pytest.raises(errors.EncryptionUnavailable):
        KEY.open(partition_id, sealed)


def test_another_queue_or_key_id_cannot_decrypt_it_with_the_same_secret() -> None:
    (sealed,) = KEY.seal(5, [b"1"])
    for other in (DataKey(7, 4, KEY.secret), DataKey(8, 3, KEY.secret)):
        with pytest.raises(errors.EncryptionUnavailable):
            other.open(5, sealed)


def test_every_flipped_bit_is_detected() -> None:
    (sealed,) = KEY.seal(5, [b'{"n":1}'])
    for at in range(8 * len(sealed)):
        if 16 <= at < 48:
            continue  # The bits of the key id select another key.
        damaged = bytearray(sealed)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(errors.EncryptionUnavailable):
            KEY.open(5, bytes(damaged))


def test_every_truncation_is_detected() -> None:
    (sealed,) = KEY.seal(5, [b'{"n":1}'])
    for end in range(len(sealed)):
        with pytest.raises(errors.EncryptionUnavailable):
            KEY.open(5, sealed[:end])
        with pytest.raises(errors.EncryptionUnavailable):
            KEY.open_all(5, [sealed[:end]])


def test_no_nonce_repeats() -> None:
    nonces = {each[6:18] for each in KEY.seal(5, [b"1"] * 200_000)}
    assert len(nonces) == 200_000


def test_only_its_master_key_decrypts_a_data_key() -> None:
    keyring = Keyring({"a": bytes(32), "b": bytes(range(32))})
    wrapped = keyring.wrap(KEY)
    assert wrapped.master_id == "a"
    assert keyring.unwrap(wrapped).secret == KEY.secret
    assert KEY.secret not in wrapped.wrapped
    for other in (
        wrapped._replace(master_id="b"),
        wrapped._replace(master_id="c"),
        wrapped._replace(queue_id=4),
        wrapped._replace(id=8),
        wrapped._replace(wrapped=wrapped.wrapped[:-1]),
        Wrapped(7, 3, "a", b""),
    ):
        with pytest.raises(errors.EncryptionUnavailable):
            keyring.unwrap(other)


def test_a_keyring_without_keys_encrypts_no_data_key() -> None:
    assert not Keyring({})
    with pytest.raises(errors.EncryptionUnavailable, match="QUEEN_ENCRYPTION_KEY"):
        Keyring({}).wrap(KEY)


@pytest.mark.parametrize(
    "text",
    ["a", "a:", f"a:{'0' * 63}", f"a:{'g' * 64}", f" :{'0' * 64}", f"a:{'0' * 64},a:{'1' * 64}"],
)
def test_a_malformed_key_is_rejected_and_not_shown(text: str) -> None:
    with pytest.raises(errors.BadSettings) as caught:
        parse_keys(text, where="here")
    assert "000" not in str(caught.value)


@pytest.mark.parametrize("key", ["", " ", "0" * 63, "0" * 65, "z" * 64, f"{'0' * 64},b:{'1' * 64}"])
def test_a_malformed_single_key_is_rejected(key: str) -> None:
    with pytest.raises(errors.BadSettings, match="QUEEN_ENCRYPTION_KEY"):
        keyring_of(Settings(encryption_key=key))


def test_the_first_key_encrypts_and_the_single_one_is_named_default() -> None:
    ring = keyring_of(Settings(encryption_key="0" * 64, encryption_keys=f"b:{'1' * 64}"))
    assert list(ring) == ["b", "default"]
    assert ring.first == "b"


def test_two_keys_with_one_id_are_rejected() -> None:
    settings = Settings(encryption_key="0" * 64, encryption_keys=f"default:{'1' * 64}")
    with pytest.raises(errors.BadSettings, match="default"):
        keyring_of(settings)


def test_only_its_owner_may_read_a_key_file(tmp_path: os.PathLike[str]) -> None:
    name = os.path.join(tmp_path, "keys")
    with open(name, "w") as file:
        file.write(f"# Newest first.\nk2:{'1' * 64}\n\nk1:{'0' * 64}\n")
    settings = Settings(encryption_keys_file=name)
    os.chmod(name, 0o640)
    with pytest.raises(errors.BadSettings, match="chmod 600"):
        keyring_of(settings)
    os.chmod(name, 0o600)
    assert list(keyring_of(settings)) == ["k2", "k1"]
    with pytest.raises(errors.BadSettings, match="cannot be read"):
        keyring_of(Settings(encryption_keys_file=name + "x"))
