"""Tantivy (https://github.com/quickwit-oss/tantivy), the library under several hosted engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from golden.answers import Found
from golden.lexicon import Document
from golden.peers import engine

#: Engine name -> whether text is cut into pieces of 2 and 3 characters instead of words.
NGRAMS = {"tantivy": False, "tantivy-ngram": True}
_ANALYZER = "peer"
_GRAMS = (2, 3)
_WORD_LETTERS_MOST = 40  # what tantivy's own `default` and `en_stem` keep
_HEAP_BYTES = 256 << 20


class Tantivy:
    """One text field in memory; a query is an OR of its terms, never its grammar.

    Words are those of tantivy's `en_stem`: lower case, English stemming.

    Raises:
        MissingPackage: tantivy.
    """

    def __init__(self, documents: Sequence[Document], *, ngram: bool) -> None:
        self._tantivy: Any = engine.package("tantivy")
        self._documents = documents
        self._analyzer = self._grams() if ngram else self._words()
        self._index = self._filled(documents)
        self._searcher = self._index.searcher()

    def search(self, query: str, limit: int) -> list[Found]:
        """See `Engine.search`."""
        should, query_type = self._tantivy.Occur.Should, self._tantivy.Query
        terms = [
            (should, query_type.term_query(self._index.schema, "text", term, "freq"))
            for term in dict.fromkeys(self._analyzer.analyze(query))
        ]
        if not terms:
            return []
        answer = self._searcher.search(query_type.boolean_query(terms), limit, count=False)
        numbers = [self._searcher.doc(address)["number"][0] for _, address in answer.hits]
        return engine.found(self._documents, numbers)

    def close(self) -> None:
        """See `Engine.close`."""
        self._searcher = self._index = None

    def _words(self) -> Any:
        simple, filters = self._tantivy.Tokenizer.simple(), self._tantivy.Filter
        return (
            self._tantivy.TextAnalyzerBuilder(simple)
            .filter(filters.remove_long(_WORD_LETTERS_MOST))
            .filter(filters.lowercase())
            .filter(filters.stemmer("english"))
            .build()
        )

    def _grams(self) -> Any:
        grams = self._tantivy.Tokenizer.ngram(*_GRAMS)
        lowercase = self._tantivy.Filter.lowercase()
        return self._tantivy.TextAnalyzerBuilder(grams).filter(lowercase).build()

    def _filled(self, documents: Sequence[Document]) -> Any:
        schema = (
            self._tantivy.SchemaBuilder()
            .add_text_field("text", tokenizer_name=_ANALYZER, index_option="freq")
            .add_integer_field("number", stored=True)
            .build()
        )
        index = self._tantivy.Index(schema)
        index.register_tokenizer(_ANALYZER, self._analyzer)
        writer = index.writer(_HEAP_BYTES, 1)
        for number, document in enumerate(documents):
            writer.add_document(self._tantivy.Document(text=engine.text(document), number=number))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        return index
