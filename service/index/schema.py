"""The tables of one tenant's file, and the version gates that rebuild them.

`doc` is the only source; everything else can be made again from it. Every gate is one
transaction that writes its stamp last: a crash leaves the file as it was.
"""

from __future__ import annotations

from typing import Any

import apsw

from service.errors import IndexCorrupt, IndexTooNew, IndexTooOld

#: Grows when a table changes its shape.
SCHEMA_VERSION = 3
#: Schemas that lack tables or columns and are the same otherwise; see `add_missing`.
INCOMPLETE = (1, 2)
#: Grows when a derived table holds something else for the same text, or has another shape.
LAYOUT_VERSION = 3

#: FTS5 gets streams that are tokenized already, so its own tokenizer must split at spaces only:
#: `ascii` keeps every non-ASCII character, and all printable ASCII is declared a token character.
_PUNCTUATION = "".join(chr(c) for c in range(0x21, 0x7F) if not chr(c).isalnum())
_TOKENIZER = "ascii tokenchars '" + _PUNCTUATION.replace("'", "''") + "'"
FTS_COLUMNS = ("title", "summary", "note", "meta", "tsub", "ssub", "nsub", "msub")

SOURCE_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
CREATE TABLE doc(
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    ref TEXT NOT NULL,
    title TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    content_hash BLOB NOT NULL,
    identifiers TEXT NOT NULL,
    summary TEXT NOT NULL,
    meta TEXT NOT NULL,
    note TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX doc_key ON doc(kind, ref);
CREATE INDEX doc_scope ON doc(id, kind, updated_at);
CREATE TABLE tombstone(
    kind TEXT NOT NULL,
    ref TEXT NOT NULL,
    version INTEGER NOT NULL,
    updated_at INTEGER,
    PRIMARY KEY(kind, ref)
) STRICT, WITHOUT ROWID;
CREATE TABLE idempotency(
    key TEXT PRIMARY KEY,
    body_digest BLOB NOT NULL,
    version INTEGER NOT NULL,
    results BLOB NOT NULL
) STRICT;
"""

DERIVED_TABLES = f"""
CREATE VIRTUAL TABLE doc_fts USING fts5(
    {", ".join(FTS_COLUMNS)}, content='', contentless_delete=1,
    tokenize="{_TOKENIZER.replace('"', '""')}"
);
CREATE TABLE doc_sheet(id INTEGER PRIMARY KEY, sheet BLOB NOT NULL) STRICT;
CREATE TABLE word(term TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE ident(
    token TEXT NOT NULL,
    doc_id INTEGER NOT NULL,
    source INTEGER NOT NULL,
    PRIMARY KEY(token, doc_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ident_doc ON ident(doc_id, source);
"""
DERIVED_NAMES = ("doc_fts", "doc_sheet", "word", "ident")

#: Made by a model, so a rebuild of what is derived leaves them alone; see `vectors.py`. A reader
#: must do without them in a file of an earlier release.
VECTOR_TABLES = """
CREATE TABLE IF NOT EXISTS doc_vec(
    doc_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    begin INTEGER NOT NULL,
    end INTEGER NOT NULL,
    text_hash BLOB NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY(doc_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS vec_pending(
    rank INTEGER NOT NULL,
    doc_id INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    reason TEXT,
    PRIMARY KEY(rank, doc_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS vec_dropped(doc_id INTEGER PRIMARY KEY, chars INTEGER NOT NULL) STRICT;
"""

#: `version` grows by one with each committed batch; `committed_at` is ms since 1970; `docs`,
#: `title_terms` and `body_terms` count what the file holds. There may be `loose` beside them: the
#: documents written since FTS5's segments were joined.
STAMPS = frozenset(
    {"version", "committed_at", "docs", "title_terms", "body_terms"}
    | {"schema", "tokenizer", "layout"}
)
#: What must be in a file before a reader serves it.
EXPECTED = frozenset({"meta", "doc", "doc_fts", "doc_sheet", "word", "ident", "tombstone"})


def create(connection: apsw.Connection, *, tokenizer_version: int) -> None:
    """Lay out an empty file inside the caller's transaction, as version 0."""
    connection.execute(SOURCE_TABLES + DERIVED_TABLES + VECTOR_TABLES)
    stamps = {
        "version": 0,
        "committed_at": 0,
        "docs": 0,
        "title_terms": 0,
        "body_terms": 0,
        "tokenizer": tokenizer_version,
        "layout": LAYOUT_VERSION,
        "schema": SCHEMA_VERSION,
    }
    connection.executemany("INSERT INTO meta(key, value) VALUES (?, ?)", stamps.items())


def add_missing(connection: apsw.Connection) -> None:
    """Give a file of an `INCOMPLETE` schema what it lacks, inside the caller's transaction."""
    connection.execute(VECTOR_TABLES)
    columns = {row[1] for row in connection.execute("PRAGMA table_info(tombstone)")}
    if "updated_at" not in columns:
        connection.execute("ALTER TABLE tombstone ADD COLUMN updated_at INTEGER")


def read_meta(connection: apsw.Connection) -> dict[str, int]:
    """All stamps of a file.

    Raises:
        IndexCorrupt: the file has no stamps or unreadable ones.
    """
    try:
        rows: list[Any] = connection.execute("SELECT key, value FROM meta").fetchall()
    except apsw.SQLError as error:
        raise IndexCorrupt("the file has no `meta` table") from error
    meta = {key: value for key, value in rows if isinstance(value, int)}
    missing = STAMPS - meta.keys()
    if missing:
        raise IndexCorrupt(f"the file lacks the stamp `{min(missing)}`")
    return meta


def refuse_newer(meta: dict[str, int], *, tokenizer_version: int) -> None:
    """Refuse a file that a later release wrote.

    Raises:
        IndexTooNew: naming what is newer.
    """
    known = {
        "schema": SCHEMA_VERSION,
        "layout": LAYOUT_VERSION,
        "tokenizer": tokenizer_version,
    }
    for name, ours in known.items():
        if meta[name] > ours:
            raise IndexTooNew(f"the file's {name} is {meta[name]}, this release knows {ours}")


def refuse_older(meta: dict[str, int]) -> None:
    """Refuse a file whose derived tables have the shape of an earlier release.

    An older tokenizer alone is served as it is until the writer gets to it.

    Raises:
        IndexTooOld: naming the layouts.
    """
    if meta["layout"] < LAYOUT_VERSION:
        raise IndexTooOld(
            f"the file's layout is {meta['layout']}, this release reads {LAYOUT_VERSION}"
        )


def check_expected(connection: apsw.Connection) -> None:
    """See that the tables are tables of ours, before anything in a foreign file is used.

    Raises:
        IndexCorrupt: a table is missing, or something stands there that we never create.
    """
    rows = connection.execute("SELECT type, name FROM sqlite_schema").fetchall()
    names = {name for kind, name in rows if kind == "table"}
    if missing := EXPECTED - names:
        raise IndexCorrupt(f"the file lacks the table `{min(missing)}`")
    if any(kind in ("trigger", "view") for kind, _ in rows):
        raise IndexCorrupt("the file holds a trigger or a view, which we never create")
