"""Whatever is sent, the answer is ours: never a 500, always JSON, and nothing is changed."""

import json
import random
from typing import Any

import pytest

from service.http.routes import ROUTES

SEED = 20_261_101
BODIES = [
    b"",
    b"null",
    b"[]",
    b"0",
    b'"text"',
    b"{",
    b"{}",
    b"\xff\xfe",
    b"\x00",
    b'{"q": NaN}',
    b'{"q": Infinity}',
    b'{"q": 1e999}',
    b'{"q": "\\ud800"}',
    b'{"q": "\\udc00\\ud800"}',
    b'{"q": "\xed\xa0\x80"}',
    b'{"q": "a", "q": 5}',
    b'{"q": ' + b"9" * 5_000 + b"}",
    b'{"limit": -' + b"9" * 300 + b', "q": "x"}',
    b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    b"[" * 60_000,
    b'{"q": ' + b"[" * 1_500 + b"]" * 1_500 + b"}",
    b'{"q": "' + b"x" * 70_000 + b'"}',
    b"\xef\xbb\xbf{}",
    b'{"__class__": "os.system", "constructor": {}}',
    b'{"refs": [null, {}, [], {"kind": {}, "ref": []}]}',
    b'{"name": "../../etc", "scopes": [[]], "tenant": {}}',
    b'{"text": {"text": "x"}}',
]
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    2**53,
    2**63,
    10**40,
    "",
    "x",
    "\0",
    "\u2028",
    "'; DROP TABLE doc; --",
    '"unclosed AND (NEAR',
    "😀" * 50,
    [],
    [[]],
    ["x"] * 200,
    {},
    {"deadline_ms": "x"},
    {"": {"": {}}},
]
FIELDS = [
    "q limit cursor kinds refs updated_after updated_before min_version max_staleness_ms explain",
    "semantic text name tenant scopes label expires_at max_bytes kind ref op title identifiers",
    "layer limit_tokens before after within budget_ms",
]


def generated(rng: random.Random) -> bytes:
    names = " ".join(FIELDS).split()
    body = {rng.choice(names): rng.choice(VALUES) for _ in range(rng.randrange(1, 6))}
    if rng.random() < 0.5:
        body.setdefault("q", "gateway")
    raw = bytearray(json.dumps(body).encode())
    for _ in range(rng.randrange(3)):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(raw)


def check(answer: Any) -> None:
    assert answer.status_code < 500, answer.text
    if answer.headers.get("content-type", "").startswith("text/html"):
        assert answer.status_code == 200  # a page, the same for everybody
        return
    body = answer.json()
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert body["status"] == answer.status_code
        assert body["detail"]
        assert body["request_id"] == answer.headers["x-request-id"]


#: `/mcp` answers in its own protocol; see `test_mcp.py`.
POSTS = sorted({r.path for r in ROUTES if "POST" in (r.methods or ())} - {"/mcp"})


@pytest.mark.parametrize("path", POSTS)
def test_no_body_brings_a_call_down(world: Any, path: str) -> None:
    rng = random.Random(f"{SEED} {path}")
    scope = "operator" if "admin" in path else "sync"
    bodies = BODIES + [generated(rng) for _ in range(120)]
    for body in bodies:
        check(world.writer.post(path, content=body, headers=world.headers(scope)))


def test_no_query_string_brings_a_search_down(world: Any) -> None:
    rng = random.Random(SEED)
    pieces = ["q=", "limit=", "kinds", "&", "=", ";", "%", "%00", "%ff", "%e2%82", "+", "?", "#"]
    pieces += [
        "updated_after=",
        "99999999999999999999",
        "-1",
        "1e5",
        "gateway",
        "cursor=",
        "é",
        "\\",
    ]
    for _ in range(300):
        query = "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 10)))
        check(world.raw_get(b"/v1/search", query.encode()))
    check(world.raw_get(b"/v1/search", bytes(range(128, 256))))


def test_no_path_method_or_header_brings_a_node_down(world: Any) -> None:
    rng = random.Random(SEED)
    for _ in range(200):
        path = "/" + "".join(chr(rng.randrange(1, 0x3000)) for _ in range(rng.randrange(12)))
        check(world.raw_get(path.encode(), b""))
    for method in ("TRACE", "PROPFIND", "get", "A" * 50):
        check(world.reader.request(method, "/v1/search", headers=world.headers("search")))
    for _ in range(200):
        name = rng.choice(
            ["authorization", "x-request-id", "content-encoding", "idempotency-key", "accept"]
        )
        value = bytes(rng.randrange(1, 256) for _ in range(rng.randrange(40)))
        value = value.replace(b"\r", b"").replace(b"\n", b"")
        headers = [
            (b"authorization", f"Bearer {world.keys['sync']}".encode()),
            (name.encode(), value),
        ]
        check(world.writer.post("/v1/documents:batch", content=b"", headers=headers))
