from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from service.index.connection import open_writer
from service.index.writer import IndexWriter
from service.node.pool import ReaderPool


def paths(folder: Path, count: int) -> list[Path]:
    """Files in rollback mode, as replicas are; in WAL mode SQLite puts off closing descriptors."""
    IndexWriter(folder / "writer.db").close()
    writer = open_writer(folder / "writer.db")
    made = [folder / f"{i}.db" for i in range(count)]
    for path in made:
        writer.execute("VACUUM INTO ?", (str(path),))
    writer.close()
    return made


def open_files(folder: Path) -> list[str]:
    entries = [entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    found = [str(entry.readlink()) for entry in entries]
    return [name for name in found if name.startswith(str(folder)) and ".db" in name]


@pytest.mark.parametrize("open_most", [4, 1])
def test_idle_connections_are_bounded_over_all_tenants(tmp_path: Path, open_most: int) -> None:
    pool = ReaderPool(paths_most=100, idle_most=8, cache_kib=64, mmap_mib=64, open_most=open_most)
    made = paths(tmp_path, 6)
    for path in made:
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(pool.lend(path))
    assert sum(name.endswith(".db") for name in open_files(tmp_path)) <= open_most
    pool.close()
    assert open_files(tmp_path) == []


def test_files_that_are_gone_are_let_go(tmp_path: Path) -> None:
    pool = ReaderPool(paths_most=100, idle_most=8, cache_kib=64, mmap_mib=64)
    gone, kept = paths(tmp_path, 2)
    for path in (gone, kept):
        with pool.lend(path):
            pass
    gone.unlink()
    assert any(name.endswith("(deleted)") for name in open_files(tmp_path))
    pool.sweep()
    assert not any(name.endswith("(deleted)") for name in open_files(tmp_path))
    assert pool.has(kept)
    assert not pool.has(gone)
    pool.close()
