"""A shard's share of an object store, made by hand: no Litestream, no clock, any fault at will."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

from service.replica import FolderStore, new_file, plan
from service.replica import heads as documents
from service.replica.heads import Head, Heads
from service.replica.ltx import NO_CHECKSUM, Header, encode
from service.replica.names import heads_key, replica_prefix
from tests.replica.world import Reader, Source


class Shard:
    """What a shard's writer and Litestream would leave in the store."""

    def __init__(self, folder: Path, store: FolderStore, name: str) -> None:
        self.store = store
        self.name = name
        self.heads: dict[str, Head] = {}
        self.registry: str | None = None
        self._folder = folder
        self._sources: dict[str, Source] = {}
        self._seq = 0

    def create(self, batches: int = 1, *, row_bytes: int = 600, file: str | None = None) -> str:
        file = file or new_file()
        self._sources[file] = Source(self._folder / f"{file}.source")
        for _ in range(batches):
            self.commit(file, row_bytes)
        return file

    def commit(self, file: str, row_bytes: int = 600) -> int:
        """One batch in the store and, after the next `publish`, in the heads."""
        source = self._sources[file]
        body = source.batch(row_bytes).read()
        self.store.put(self.key(file, source.txid), body)
        self.heads[file] = Head(1, source.txid, source.txid, int(time.time() * 1_000))
        return source.txid

    def key(self, file: str, txid: int) -> str:
        return replica_prefix(file, 1) + "ltx/0/" + plan.file_name(txid, txid)

    def snapshot(self, file: str) -> None:
        """One object from transaction 1 on, in place of all others."""
        state = bytearray(self._sources[file].path.read_bytes())
        state[18:20] = b"\x02\x02"
        self.put_snapshot(file, bytes(state), self._sources[file].txid)

    def put_snapshot(self, file: str, state: bytes, txid: int, epoch: int = 1) -> None:
        key = replica_prefix(file, epoch) + "ltx/9/" + plan.file_name(1, txid)
        self.store.put(key, _through(state, txid))

    def delete_objects(self, file: str) -> None:
        for item in list(self.store.list(replica_prefix(file, 1))):
            self.store.delete(item.key)

    def publish(self) -> None:
        self._seq += 1
        document = Heads(
            self.name, self._seq, int(time.time() * 1_000), dict(self.heads), self.registry
        )
        self.store.put(heads_key(self.name), documents.encode(document))

    def forget(self, file: str) -> Head:
        return self.heads.pop(file)

    def restart(self, file: str) -> None:
        """The same content under the next epoch."""
        source = self._sources[file]
        self.put_snapshot(file, source.path.read_bytes(), 1, epoch=2)
        self.heads[file] = dataclasses.replace(self.heads[file], epoch=2, txid=1)


def _through(state: bytes, txid: int) -> bytes:
    pages = {n + 1: state[n * 4_096 : (n + 1) * 4_096] for n in range(len(state) // 4_096)}
    return encode(Header(NO_CHECKSUM, 4_096, len(pages), 1, txid, 0), pages)


def path_of(node: Reader, file: str) -> Path:
    view = node.worker.view(file)
    assert view is not None
    return view.path


def unused_since_1970(node: Reader, file: str) -> None:
    """As if nobody had ever asked for it."""
    path = path_of(node, file)
    os.utime(path, (1, path.stat().st_mtime))


def stuck(node: Reader, cause: str) -> int:
    """How many tenants this node shows as stuck for this cause."""
    return node.worker.node_health().stuck.get(cause, (0, 0))[0]
