"""A valid token, and forged ones that must be rejected."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISSUER, AUDIENCE = "https://id.example", "queen"
KEY = rsa.generate_private_key(65537, 2048)
OTHER_KEY = rsa.generate_private_key(65537, 2048)
PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
DER = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
RS = {"alg": "RS256", "typ": "JWT"}


def claims(**changed: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The claims of a valid token. None removes a claim."""
    good = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "exp": int(time.time()) + 600,
        "role": "read-only",
    }
    return {name: value for name, value in {**good, **changed}.items() if value is not None}


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(header: str | dict[str, Any], body: str | dict[str, Any]) -> str:
    """Any header and any claims, signed with RS256 and the right key."""
    parts = [each if isinstance(each, str) else json.dumps(each) for each in (header, body)]
    text = ".".join(b64(part.encode()) for part in parts)
    return f"{text}.{b64(KEY.sign(text.encode(), padding.PKCS1v15(), SHA256()))}"


def with_mac(secret: bytes, header: dict[str, Any] | None = None) -> str:
    text = ".".join(
        b64(json.dumps(part).encode()) for part in (header or {"alg": "HS256"}, claims())
    )
    return f"{text}.{b64(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def good(**changed: Any) -> str:  # noqa: ANN401 - JSON
    return jwt.encode(claims(**changed), KEY, algorithm="RS256")


def forged() -> dict[str, str]:
    """Forged tokens by their defect."""
    return {
        **_algorithms(),
        **_signatures(),
        **_headers(),
        **_documents(),
        **_times(),
        **_identities(),
        **_key_ids(),
    }


def _algorithms() -> dict[str, str]:
    plain = b64(json.dumps(claims()).encode())
    return {
        "nothing": "e30.e30.",
        "alg none": f"{b64(json.dumps({'alg': 'none'}).encode())}.{plain}.",
        "alg None": f"{b64(json.dumps({'alg': 'None'}).encode())}.{plain}.",
        "alg none, signed": signed({"alg": "none"}, claims()),
        "alg missing": signed({"typ": "JWT"}, claims()),
        "alg null": signed({"alg": None}, claims()),
        "alg a list": signed({"alg": ["RS256"]}, claims()),
        "alg lower": signed({"alg": "rs256"}, claims()),
        "alg RS512": jwt.encode(claims(), KEY, algorithm="RS512"),
        "alg PS256": jwt.encode(claims(), KEY, algorithm="PS256"),
        "alg ES256": jwt.encode(claims(), ec.generate_private_key(ec.SECP256R1()), "ES256"),
        "alg EdDSA": jwt.encode(claims(), ed25519.Ed25519PrivateKey.generate(), "EdDSA"),
        "HS256 with the public key": with_mac(PEM.encode()),
        "HS256 with the public key, stripped": with_mac(PEM.strip().encode()),
        "HS256 with the public key as DER": with_mac(DER),
        "HS256 with nothing": with_mac(b""),
        "RS256 said, HS256 done": with_mac(PEM.encode(), RS),
    }


def _signatures() -> dict[str, str]:
    head, body, signature = good().split(".")
    return {
        "another key": jwt.encode(claims(), OTHER_KEY, algorithm="RS256"),
        "no signature": f"{head}.{body}.",
        "signature cut": f"{head}.{body}.{signature[:-4]}",
        "signature of other claims": f"{head}.{good(sub='mallory').split('.')[1]}.{signature}",
        "two parts": f"{head}.{body}",
        "four parts": f"{head}.{body}.{signature}.{signature}",
        "padded": f"{head}=.{body}.{signature}",
        "standard base64": f"{head}.{body}.{signature[:-1]}+",
        "a space inside": f"{head}. {body}.{signature}",
        "another spelling of the last byte": f"{head}.{body}.{_respelt(signature)}",
        "letters beyond ASCII": f"{head}.{body}.{signature}é",
    }


def _headers() -> dict[str, str]:
    own_jwk = json.loads(jwt.get_algorithm_by_name("RS256").to_jwk(OTHER_KEY.public_key()))
    return {
        "jku": signed({**RS, "jku": "https://evil.example/keys"}, claims()),
        "x5u": signed({**RS, "x5u": "https://evil.example/cert"}, claims()),
        "jwk of its own": jwt.encode(
            claims(), OTHER_KEY, algorithm="RS256", headers={"jwk": own_jwk}
        ),
        "x5c": signed({**RS, "x5c": ["MIIB"]}, claims()),
        "crit": signed({**RS, "crit": ["exp"]}, claims()),
        "crit, not known": signed({**RS, "crit": ["bogus"], "bogus": 1}, claims()),
        "b64 off": signed({**RS, "b64": False, "crit": ["b64"]}, claims()),
        "zip": signed({**RS, "zip": "DEF"}, claims()),
        "encrypted": signed({**RS, "enc": "A256GCM"}, claims()),
        "typ of something else": signed({**RS, "typ": "logout+jwt"}, claims()),
        "alg twice": signed('{"alg":"none","alg":"RS256"}', claims()),
    }


def _documents() -> dict[str, str]:
    """Tokens whose JSON is repeated, malformed or too large."""
    now = int(time.time())
    return {
        "sub twice": signed(RS, json.dumps(claims())[:-1] + ',"sub":"root"}'),
        "exp twice": signed(RS, json.dumps(claims(exp=1))[:-1] + f',"exp":{now + 60}}}'),
        "header a list": signed('["RS256"]', claims()),
        "claims a list": signed(RS, "[]"),
        "claims a string": signed(RS, '"alice"'),
        "not JSON": signed(RS, "{"),
        "not a number": signed(RS, json.dumps(claims())[:-1] + ',"x":NaN}'),
        "nested deep": signed(RS, '{"a":' + "[" * 2000 + "]" * 2000 + "}"),
        "huge": signed(RS, claims(pad="x" * 9000)),
    }


def _times() -> dict[str, str]:
    now = int(time.time())
    return {
        "expired": good(exp=now - 61),
        "exp missing": good(exp=None),
        "exp a string": signed(RS, claims(exp=str(now + 60))),
        "exp true": signed(RS, claims(exp=True)),
        "exp infinite": signed(RS, json.dumps(claims())[:-1] + ',"nbf":1e999}'),
        "exp negative": signed(RS, claims(exp=-1)),
        "not yet": good(nbf=now + 3600),
        "nbf a string": signed(RS, claims(nbf="0")),
        "issued in the future": good(iat=now + 3600),
    }


def _identities() -> dict[str, str]:
    return {
        "issuer of others": good(iss="https://evil.example"),
        "issuer with a tail": good(iss=ISSUER + ".evil.example"),
        "issuer missing": good(iss=None),
        "issuer a list": signed(RS, claims(iss=[ISSUER])),
        "audience of others": good(aud="other"),
        "audience with a tail": good(aud="queen2"),
        "audience missing": good(aud=None),
        "audience empty": good(aud=[]),
        "sub missing": good(sub=None),
        "sub empty": good(sub=""),
        "sub a number": signed(RS, claims(sub=7)),
        "sub with a line": good(sub="alice\nbob"),
        "role a list": good(role=["admin"]),
        "role and roles": good(roles=["admin"]),
        "roles a string": good(role=None, roles="admin"),
        "scopes a string": good(scopes="*"),
        "scopes of another form": good(scopes=[{"topic": "a"}]),
        "scopes empty ones": good(scopes=[{}]),
    }


def _key_ids() -> dict[str, str]:
    """With a single key in the settings, a key ID is ignored: these are signed by another key."""
    return {
        f"kid {name[:20]!r}": jwt.encode(
            claims(), OTHER_KEY, algorithm="RS256", headers={"kid": name}
        )
        for name in ("../../dev/null", "/etc/hosts", "a' or 'a'='a", "\x00", "x" * 300)
    }


def _respelt(signature: str) -> str:
    """The same bytes with other unused bits at the end."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return signature[:-1] + letters[letters.index(signature[-1]) ^ 1]
