"""The tokenizer and what reads text with it. Pure: no I/O, no clock."""

from service.text.code import is_code, names_only
from service.text.identifiers import fold_identifier, identifiers_in, is_identifier
from service.text.query import ParsedQuery, parse_query
from service.text.snippets import Snippet, snippet
from service.text.spans import spans
from service.text.streams import Span, Streams
from service.text.tokenizer import TOKENIZER_VERSION, index_columns, tokenize
from service.text.tokens import estimate_tokens

__all__ = [
    "TOKENIZER_VERSION",
    "ParsedQuery",
    "Snippet",
    "Span",
    "Streams",
    "estimate_tokens",
    "fold_identifier",
    "identifiers_in",
    "index_columns",
    "is_code",
    "is_identifier",
    "names_only",
    "parse_query",
    "snippet",
    "spans",
    "tokenize",
]
