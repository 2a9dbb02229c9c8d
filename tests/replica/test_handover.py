"""What holds of a file that was sealed for another shard, without anything else running."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from service.index.writer import IndexWriter
from service.replica import FolderStore, latest_epoch, local_files, new_file, prepare, writer_path
from service.replica import heads as documents
from service.replica.fencing import announced
from service.replica.handover import announced_anywhere, head_of
from service.replica.heads import Head, Heads
from service.replica.names import adopted_epoch, heads_key, next_epoch
from service.replica.tenure import Tenure

TERMS = st.integers(1, 500)
EPOCHS = st.integers(1, 10**7) | st.integers(10**9, 10**10)


@given(EPOCHS, TERMS, TERMS)
def test_each_ownership_adopts_under_an_epoch_of_its_own(sealed: int, one: int, two: int) -> None:
    first, second = adopted_epoch(one, sealed), adopted_epoch(two, sealed)
    assert min(first, second) > sealed
    assert (first == second) == (one == two)


@given(EPOCHS, TERMS, TERMS)
def test_a_later_owner_goes_beyond_all_an_earlier_one_can_have_written(
    sealed: int, term: int, later: int
) -> None:
    adopted = adopted_epoch(term, sealed)
    dead, alive = next_epoch(term + later, adopted), next_epoch(term + later + 1, adopted)
    assert adopted < dead < alive


def test_a_sealed_file_is_announced_and_never_opened_again(tmp_path: Path) -> None:
    data, store, file = tmp_path / "data", FolderStore(tmp_path / "store"), new_file()
    head = Head(epoch=1000, txid=3, version=2, committed_at=1, moved_to="east")
    known = Heads("main", 7, 1, {file: head}, term=1, owner="a/b", url="http://here")
    store.put_if(heads_key("main"), documents.encode(known), known_etag=None)
    path = writer_path(data, file, 1000)
    path.parent.mkdir(parents=True)
    IndexWriter(path, documents_most=10, idempotency_keys_most=10).close()

    assert prepare(data, store, shard="main", tenure=Tenure(2, "a/c")) == []
    assert (latest_epoch(data, file), local_files(data)) == (None, [])
    assert len(list((data / "writer" / "set-aside").glob(f"{file}-*/*.db"))) == 1
    # The heads say all that they said, under the new owner's name: the target still finds it.
    now, _ = announced(store, "main")
    assert now is not None
    assert (now.tenants, now.term, now.url) == ({file: head}, 2, "http://here")
    assert head_of(store, "main", file) == head
    assert announced_anywhere(store, file)
    assert not announced_anywhere(store, new_file())
