"""A thousand requests that nobody should send, against the real service."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from service.settings import Settings
from tests.e2e.service import Service

REQUESTS = 1_000
LIMITS = Settings()
GOOD = b'{"kind": "note", "ref": "kept-%d", "title": "kept"}'

#: A line that must be refused, and a word of the reason.
BAD_LINES: list[tuple[bytes, str]] = [
    (b"{", "JSON"),
    (b'{"kind": "note", "ref": "r"', "JSON"),
    (b'{"kind": "note", "ref": "\xff\xfe"}', "JSON"),
    (b'{"kind": "note", "ref": "\\ud800"}', "JSON"),
    (b'{"kind": "note", "ref": "r", "updated_at": NaN}', "JSON"),
    (b"[" * 2000 + b"]" * 2000, ""),
    (b"[1, 2]", "object"),
    (b'"text"', "object"),
    (b"null", "object"),
    (b"123", "object"),
    (b'{"kind": "note"}', "ref"),
    (b'{"ref": "r"}', "kind"),
    (b'{"kind": 7, "ref": "r"}', "kind"),
    (b'{"kind": "no such kind!", "ref": "r"}', "kind"),
    (b'{"kind": "", "ref": "r"}', "kind"),
    (b'{"kind": "note", "ref": ["r"]}', "ref"),
    (b'{"kind": "note", "ref": "%s"}' % (b"r" * 10_000), "ref"),
    (b'{"kind": "note", "ref": "a\\u0000b"}', "NUL"),
    (b'{"kind": "note", "ref": "r", "note": "a\\u0000b"}', "NUL"),
    (b'{"kind": "note", "ref": "r", "title": {"a": 1}}', "title"),
    (b'{"kind": "note", "ref": "r", "title": "%s"}' % (b"t" * 5_000), "title"),
    (b'{"kind": "note", "ref": "r", "updated_at": "yesterday"}', "updated_at"),
    (b'{"kind": "note", "ref": "r", "updated_at": 1.5}', "updated_at"),
    (b'{"kind": "note", "ref": "r", "updated_at": -5}', "updated_at"),
    (b'{"kind": "note", "ref": "r", "updated_at": 99999999999999999999}', ""),
    (b'{"kind": "note", "ref": "r", "updated_at": 9999999999999}', "future"),
    (b'{"kind": "note", "ref": "r", "identifiers": {"a": 1}}', "identifiers"),
    (b'{"kind": "note", "ref": "r", "identifiers": [null]}', "identifiers"),
    (b'{"kind": "note", "ref": "r", "surprise": 1}', "surprise"),
    (b'{"op": "drop table doc", "kind": "note", "ref": "r"}', "op"),
    (b'{"op": "delete", "kind": "note"}', "ref"),
]
QUERIES = [
    *("'; DROP TABLE doc; --", '" OR 1=1 --', "NEAR(a b, 5)", "a AND", "AND OR NOT", "title:x"),
    *("{title tsub} : x", "^a", "a*", "*", '"', '""', "(((", "-", "--", "- -", "\0", "a\0b"),
    *("kind:", "kind:note kind:", "after:never", "after:9999-99-99", "before:0000-00-00"),
    *("-a -b -c", '-"', "%s%n", "${jndi:ldap://x}", "<script>", "../../etc/passwd", "\\", "\ud7ff"),
    *("😀" * 50, "é" * 300, "あ" * 3000, "\u202e abc", "\u200d" * 500, "a" * 4096, " " * 4000),
]
SEARCH_BODIES: list[Any] = [
    *(
        {},
        [],
        None,
        5,
        "q",
        {"q": None},
        {"q": []},
        {"q": "x", "limit": -1},
        {"q": "x", "limit": 1e9},
    ),
    *({"q": "x", "kinds": [["a"]]}, {"q": "x", "cursor": "zzz"}, {"q": "x", "cursor": 5}),
    *({"q": "x" * 5000}, {"q": "x", "min_version": -1}, {"q": "x", "min_version": 2**70}),
    *({"q": "x", "updated_after": "soon"}, {"q": "x", "unknown": 1}, {"q": "x", "semantic": 3}),
    {"q": "x", "updated_after": 5, "updated_before": 1},
]


class Attacker:
    """Sends hostile requests and knows what must be there afterwards."""

    def __init__(self, service: Service, client: httpx.Client, seed: int) -> None:
        self.service, self.client = service, client
        self.chance = random.Random(seed)
        self.kept: set[str] = set()
        self.sent = 0
        self.statuses: Counter[int] = Counter()
        self.kinds: list[Callable[[], httpx.Response]] = [
            *[self.atomic, self.partial] * 4,
            *[self.query] * 3,
            self.search_body,
            self.documents,
            self.address,
            self.header,
            self.duplicates,
        ]

    def attack(self) -> None:
        answer = self.chance.choice(self.kinds)()
        self.sent += 1
        self.statuses[answer.status_code] += 1
        assert answer.status_code < 500, f"{answer.status_code} {answer.text[:500]}"
        if answer.status_code >= 400:
            problem = answer.json()
            assert answer.headers["content-type"] == "application/problem+json"
            assert problem["type"].startswith("/v1/problems/")
            assert problem["detail"]
            assert problem["request_id"]

    # --- kinds of attack

    def batch(self, lines: list[bytes], atomic: str) -> httpx.Response:
        url = f"{self.service.writer}/v1/documents:batch"
        return self.client.post(url, content=b"\n".join(lines), params={"atomic": atomic})

    def lines(self) -> tuple[list[bytes], dict[int, str], list[str]]:
        """Lines, the bad ones' numbers with a word of their reason, and the good ones' refs."""
        count = self.chance.randint(1, 6)
        bad = set(self.chance.sample(range(1, count + 1), self.chance.randint(1, count)))
        lines, reasons, refs = [], {}, []
        for number in range(1, count + 1):
            if number in bad:
                line, reasons[number] = self.chance.choice(BAD_LINES)
                lines.append(line)
            else:
                lines.append(GOOD % self.sent)
                refs = [f"kept-{self.sent}"]
        return lines, reasons, refs

    def check_reasons(self, told: list[dict[str, Any]], reasons: dict[int, str]) -> None:
        assert [line["line"] for line in told] == sorted(reasons)
        for line in told:
            assert reasons[line["line"]] in line["error"], line

    def atomic(self) -> httpx.Response:
        lines, reasons, _ = self.lines()
        answer = self.batch(lines, "true")
        assert answer.status_code == 422, answer.text
        assert answer.json()["kept"] is False
        self.check_reasons(answer.json()["lines"], reasons)
        return answer

    def partial(self) -> httpx.Response:
        lines, reasons, refs = self.lines()
        answer = self.batch(lines, "false")
        assert answer.status_code == 200, answer.text
        self.kept.update(refs)
        results = answer.json()["results"]
        assert all(line["kept"] is (line["result"] != "refused") for line in results)
        self.check_reasons([line for line in results if not line["kept"]], reasons)
        return answer

    def duplicates(self) -> httpx.Response:
        ref = f"kept-{self.sent}"
        lines = [
            b'{"kind": "note", "ref": "%s", "title": "first"}' % ref.encode(),
            b'{"op": "delete", "kind": "note", "ref": "%s"}' % ref.encode(),
            b'{"kind": "note", "ref": "%s", "title": "last"}' % ref.encode(),
        ]
        answer = self.batch(lines, "true")
        results = [line["result"] for line in answer.json()["results"]]
        assert results == ["superseded", "superseded", "created"]
        self.kept.add(ref)
        return answer

    def query(self) -> httpx.Response:
        body = {"q": self.chance.choice(QUERIES)}
        answer = self.client.post(f"{self.service.reader}/v1/search", json=body)
        assert answer.status_code == 200, answer.text
        return answer

    def search_body(self) -> httpx.Response:
        raw = json.dumps(self.chance.choice(SEARCH_BODIES))
        if self.chance.random() < 0.2:
            raw = raw[: len(raw) // 2] + "\x01"
        answer = self.client.post(f"{self.service.reader}/v1/search", content=raw)
        assert 400 <= answer.status_code < 500, answer.text
        return answer

    def documents(self) -> httpx.Response:
        refs: Any = self.chance.choice(
            [[], None, [{}], [{"kind": "note"}], [5], [{"ref": "x" * 10_000}]]
        )
        answer = self.client.post(
            f"{self.service.reader}/v1/documents:get", content=json.dumps({"refs": refs})
        )
        assert 400 <= answer.status_code < 500, answer.text
        return answer

    def address(self) -> httpx.Response:
        method = self.chance.choice(["GET", "PUT", "DELETE", "PATCH", "POST"])
        path = self.chance.choice(
            ["/v2", "/web/x", "/v1/", "/v1/search/", "/v1/%ff", "/v1/..%2f", "/x" * 90]
        )
        answer = self.client.request(method, self.service.reader + path)
        assert 400 <= answer.status_code < 500, answer.text
        return answer

    def header(self) -> httpx.Response:
        headers = self.chance.choice(
            [
                {"authorization": "Bearer ml_search_wrong"},
                {"authorization": "Basic eDp5"},
                {"authorization": ""},
                {"authorization": "Bearer " + "k" * 2000},
            ]
        )
        answer = self.client.post(
            f"{self.service.writer}/v1/documents:batch", content=GOOD % 1, headers=headers
        )
        assert answer.status_code == 401
        return answer


def test_a_thousand_hostile_requests(service: Service) -> None:
    client = service.tenant("hostile")
    attacker = Attacker(service, client, seed=7)
    for _ in range(REQUESTS):
        attacker.attack()
    assert attacker.sent == REQUESTS
    # Nothing else changed: exactly the documents that were said to be kept are there.
    index = client.get(f"{service.writer}/v1/index").json()
    assert index["documents"] == len(attacker.kept)
    refs = sorted(attacker.kept)
    for start in range(0, len(refs), LIMITS.get_refs):
        keys = [{"kind": "note", "ref": ref} for ref in refs[start : start + LIMITS.get_refs]]
        answer = client.post(f"{service.writer}/v1/documents:get", json={"refs": keys})
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["documents"]) == len(keys)


@pytest.mark.parametrize("atomic", ["true", "false"])
def test_a_line_of_20_mb_is_refused_by_number(service: Service, atomic: str) -> None:
    client = service.tenant(f"huge-{atomic}")
    huge = b'{"kind": "note", "ref": "huge", "note": "%s"}' % (b"x" * 20_000_000)
    answer = client.post(
        f"{service.writer}/v1/documents:batch",
        content=b"\n".join([GOOD % 1, huge, GOOD % 2]),
        params={"atomic": atomic},
    )
    assert answer.status_code == (422 if atomic == "true" else 200), answer.text
    told = answer.json()
    refused = told["lines"] if atomic == "true" else [r for r in told["results"] if not r["kept"]]
    assert [line["line"] for line in refused] == [2]
    assert str(LIMITS.line_bytes) in refused[0]["error"]
    kept = 0 if atomic == "true" else 2
    assert client.get(f"{service.writer}/v1/index").json()["documents"] == kept


def test_a_body_over_the_limit_is_refused_at_a_line(service: Service) -> None:
    client = service.tenant("endless")
    line = b'{"kind": "note", "ref": "r", "note": "%s"}\n' % (b"x" * 1_000_000)
    answer = client.post(
        f"{service.writer}/v1/documents:batch",
        content=line * (LIMITS.request_bytes // len(line) + 2),
    )
    assert answer.status_code == 413
    problem = answer.json()
    assert problem["limit"] == "request_bytes"
    assert "line" in problem["detail"]
    assert client.get(f"{service.writer}/v1/index").json()["documents"] == 0


def test_too_many_lines_are_refused_whole(service: Service) -> None:
    client = service.tenant("many")
    lines = b"\n".join(GOOD % n for n in range(LIMITS.batch_lines + 1))
    answer = client.post(f"{service.writer}/v1/documents:batch", content=lines)
    assert (answer.status_code, answer.json()["limit"]) == (413, "batch_lines")
    assert client.get(f"{service.writer}/v1/index").json()["documents"] == 0


def test_a_sender_that_stalls_holds_nobody_up(service: Service) -> None:
    client = service.tenant("slow")

    def stalling() -> Any:
        yield GOOD % 1
        started = time.monotonic()
        answer = client.post(f"{service.writer}/v1/documents:batch", content=GOOD % 2)
        assert answer.status_code == 200
        assert time.monotonic() - started < 10
        yield b"\n" + GOOD % 3

    other = httpx.Client(headers=client.headers, timeout=60)
    assert other.post(f"{service.writer}/v1/documents:batch", content=stalling()).status_code == 200
    assert client.get(f"{service.writer}/v1/index").json()["documents"] == 3
