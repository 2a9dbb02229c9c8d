"""The files of our pages: kept for good under their digest, with headers that allow nothing."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest

from service.http import static

PATHS = sorted(static.web().files)


@pytest.mark.parametrize("path", PATHS)
def test_every_file_is_kept_for_good_where_it_is(world: Any, path: str) -> None:
    answer = world.reader.get(f"/web/{static.web().digest}/{path}")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == static.FOR_GOOD
    for name, value in static.SECURITY_HEADERS.items():
        assert answer.headers[name] == value
    types = {
        "js": "text/javascript",
        "css": "text/css",
        "html": "text/html",
        "svg": "image/svg+xml",
    }
    assert answer.headers["content-type"].split(";")[0] == types[path.rsplit(".", 1)[1]]


def test_a_file_that_did_not_change_is_not_sent_again(world: Any) -> None:
    first = world.reader.get("/")
    assert first.headers["cache-control"] == "no-cache"
    again = world.reader.get("/", headers={"if-none-match": f'"x", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == static.CONTENT_POLICY
    assert world.reader.get("/", headers={"if-none-match": '"x"'}).status_code == 200


def test_under_an_earlier_digest_a_file_is_asked_for_each_time(world: Any) -> None:
    answer = world.reader.get("/web/0123/page.js")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path", ["nothing.js", "../http/auth.py", "%2e%2e/http/auth.py", "/etc/passwd", ""]
)
def test_nothing_else_is_served(world: Any, path: str) -> None:
    answer = world.reader.get(f"/web/{static.web().digest}/{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_page_names_only_files_that_are_there() -> None:
    web = static.web()
    for path, file in web.files.items():
        if path.endswith(".html"):
            named = re.findall(rb'(?:src|href)="([^"]+)"', file.body)
            assert named
            for address in named:
                prefix = f"/web/{web.digest}/".encode()
                assert address.startswith(prefix)
                assert address.removeprefix(prefix).decode() in web.files


def test_a_module_imports_only_files_that_are_there() -> None:
    web = static.web()
    for path, file in web.files.items():
        if path.endswith(".js"):
            folder = path.rpartition("/")[0]
            for name in re.findall(rb'^import .* from "\./([^"]+)";$', file.body, re.M):
                assert f"{folder}/{name.decode()}".lstrip("/") in web.files


def test_no_file_names_another_host_or_turns_text_into_markup() -> None:
    for path, file in static.web().files.items():
        text = file.body.decode()
        hosts = set(re.findall(r"https?://[\w.]+", text)) - {"http://www.w3.org"}
        assert hosts == set(), path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
        if path.endswith(".html"):
            assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text), path


def test_the_digest_follows_the_files() -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", static.web().digest)
    packaged = files("service") / "web"
    raw = (packaged / "page.html").read_bytes()
    assert b"{{web}}" in raw
    assert static.web().files["page.html"].body == raw.replace(
        b"{{web}}", f"/web/{static.web().digest}".encode()
    )
