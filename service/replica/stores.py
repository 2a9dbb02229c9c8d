"""One URL names the object store.

/srv/store, ./store, file:///srv/store          a folder
s3://bucket/prefix?endpoint=...&region=...      S3, or a server that speaks its protocol
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from urllib.request import url2pathname

from service.errors import ReplicationError, SetupError
from service.replica.s3_store import REGION_DEFAULT, Bucket, S3Store
from service.replica.store import FolderStore, ObjectStore, check_key
from service.settings import Settings

_HINT = "Give a folder, or s3://bucket/prefix?endpoint=https://...&region=..."


def open_store(url: str, settings: Settings) -> ObjectStore:
    """The store that a URL names; nothing is asked of it yet.

    Raises:
        SetupError: the URL names none.
        ReplicationError: an S3 client cannot be made of it.
    """
    parts = urlsplit(url)
    if parts.scheme == "s3":
        return S3Store(
            _bucket(url), timeout_ms=settings.store_timeout_ms, retries=settings.store_retries
        )
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise SetupError(f"{url} does not name a folder of this machine", hint=_HINT)
        return FolderStore(Path(url2pathname(parts.path)))
    if "://" in url or not url:
        raise SetupError(f"{url or 'an empty URL'} does not name an object store", hint=_HINT)
    return FolderStore(Path(url))


def store_url(url: str) -> str:
    """The same URL, good from any working directory.

    Raises:
        SetupError: the URL names no store.
    """
    parts = urlsplit(url)
    if parts.scheme == "s3":
        _bucket(url)
        return url
    return str(Path(url).absolute()) if "://" not in url else url


def _bucket(url: str) -> Bucket:
    parts = urlsplit(url)
    asked = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    unknown = set(asked) - {"endpoint", "region"}
    if unknown or not parts.netloc or "@" in parts.netloc or parts.fragment:
        what = f"`{min(unknown)}` is unknown" if unknown else "it needs a bucket and no credentials"
        raise SetupError(f"the object store's URL cannot be used: {what}", hint=_HINT)
    endpoint = asked.get("endpoint", [None])[-1]
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise SetupError("the object store's endpoint is not an http(s) URL", hint=_HINT)
    prefix = parts.path.strip("/")
    try:
        check_key(prefix or "none")
    except ReplicationError as error:
        raise SetupError("the object store's prefix cannot be used", hint=_HINT) from error
    return Bucket(
        name=parts.netloc,
        prefix=prefix,
        endpoint=endpoint,
        region=asked.get("region", [REGION_DEFAULT])[-1],
    )
