"""`/v1/manifest` over real index files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sources.world import Hosted

Open = Callable[..., Hosted]


@pytest.fixture
def open_hosted(tmp_path: Path) -> Iterator[Open]:
    worlds: list[Hosted] = []

    def open_hosted(**limits: int) -> Hosted:
        worlds.append(Hosted(tmp_path / "service", **limits))
        return worlds[-1]

    yield open_hosted
    for world in worlds:
        world.close()


def write(hosted: Hosted, *refs: str) -> int:
    with hosted.client() as client:
        return client.batch([{"kind": "note", "ref": ref, "updated_at": 7} for ref in refs])[
            "version"
        ]


def test_digests_and_rows_tell_the_same(open_hosted: Open) -> None:
    hosted = open_hosted()
    version = write(hosted, "a", "b", "c")
    with hosted.client() as client:
        told = client.manifest(min_version=version)
        assert (told["tenant"], told["version"], told["documents"]) == ("acme", version, 3)
        filled = {n for n, digest in enumerate(told["digests"]) if digest != "0" * 16}
        rows = [row for one in "0123456789abcdef" for row in client.bucket(one)["rows"]]
        assert {int(key[:2], 16) for key, _, _ in rows} == filled
        assert [updated_at for _, updated_at, _ in rows] == [7, 7, 7]
        first = rows[0][0][:2]
        assert client.bucket(first)["rows"] == [row for row in rows if row[0][:2] == first]


def test_the_key_must_be_one_for_sync(open_hosted: Open) -> None:
    hosted = open_hosted()
    key = {"authorization": f"Bearer {hosted.keys['search']}"}
    for path in ("/v1/manifest", "/v1/manifest/0"):
        assert hosted.http.get(path).status_code == 401
        assert hosted.http.get(path, headers=key).status_code == 403


@pytest.mark.parametrize("bucket", ["g", "00f", "A", "0x", "%2e%2e", "-1"])
def test_there_are_no_other_buckets(open_hosted: Open, bucket: str) -> None:
    hosted = open_hosted()
    key = {"authorization": f"Bearer {hosted.keys['sync']}"}
    answer = hosted.http.get(f"/v1/manifest/{bucket}", headers=key)
    assert answer.status_code == 404


def test_what_is_asked_badly_is_refused_and_what_is_not_there_yet_is_told(
    open_hosted: Open,
) -> None:
    hosted = open_hosted(search_deadline_ms=50)
    key = {"authorization": f"Bearer {hosted.keys['sync']}"}
    assert hosted.http.get("/v1/manifest?min_version=x", headers=key).status_code == 400
    assert hosted.http.get("/v1/manifest?q=x", headers=key).status_code == 400
    answer = hosted.http.get("/v1/manifest?min_version=9", headers=key)
    assert (answer.status_code, answer.json()["type"]) == (409, "/v1/problems/replica-behind")


def test_a_bucket_that_is_too_full_names_its_limit(open_hosted: Open) -> None:
    hosted = open_hosted(manifest_rows=1)
    write(hosted, *map(str, range(40)))
    key = {"authorization": f"Bearer {hosted.keys['sync']}"}
    answers = [hosted.http.get(f"/v1/manifest/{n:x}", headers=key).json() for n in range(16)]
    full = [answer for answer in answers if "limit" in answer]
    assert full
    assert {answer["limit"] for answer in full} == {"manifest_rows"}
