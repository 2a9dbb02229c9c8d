from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EmbedQueryRequest(_message.Message):
    __slots__ = ("text", "model")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    text: str
    model: str
    def __init__(self, text: _Optional[str] = ..., model: _Optional[str] = ...) -> None: ...

class Embedding(_message.Message):
    __slots__ = ("vector", "tokens", "truncated")
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    vector: bytes
    tokens: int
    truncated: bool
    def __init__(self, vector: _Optional[bytes] = ..., tokens: _Optional[int] = ..., truncated: _Optional[bool] = ...) -> None: ...

class EmbedQueryReply(_message.Message):
    __slots__ = ("model", "dims", "embedding")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DIMS_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    model: str
    dims: int
    embedding: Embedding
    def __init__(self, model: _Optional[str] = ..., dims: _Optional[int] = ..., embedding: _Optional[_Union[Embedding, _Mapping]] = ...) -> None: ...

class EmbedPassagesRequest(_message.Message):
    __slots__ = ("texts", "model")
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    model: str
    def __init__(self, texts: _Optional[_Iterable[str]] = ..., model: _Optional[str] = ...) -> None: ...

class EmbedPassagesReply(_message.Message):
    __slots__ = ("model", "dims", "embeddings")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DIMS_FIELD_NUMBER: _ClassVar[int]
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    model: str
    dims: int
    embeddings: _containers.RepeatedCompositeFieldContainer[Embedding]
    def __init__(self, model: _Optional[str] = ..., dims: _Optional[int] = ..., embeddings: _Optional[_Iterable[_Union[Embedding, _Mapping]]] = ...) -> None: ...

class SplitRequest(_message.Message):
    __slots__ = ("texts", "max_tokens", "max_passages")
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_PASSAGES_FIELD_NUMBER: _ClassVar[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    max_tokens: int
    max_passages: int
    def __init__(self, texts: _Optional[_Iterable[str]] = ..., max_tokens: _Optional[int] = ..., max_passages: _Optional[int] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("start", "end", "tokens")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    tokens: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class Spans(_message.Message):
    __slots__ = ("spans", "dropped_tokens")
    SPANS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    spans: _containers.RepeatedCompositeFieldContainer[Span]
    dropped_tokens: int
    def __init__(self, spans: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., dropped_tokens: _Optional[int] = ...) -> None: ...

class SplitReply(_message.Message):
    __slots__ = ("model", "texts")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    model: str
    texts: _containers.RepeatedCompositeFieldContainer[Spans]
    def __init__(self, model: _Optional[str] = ..., texts: _Optional[_Iterable[_Union[Spans, _Mapping]]] = ...) -> None: ...

class InfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InfoReply(_message.Message):
    __slots__ = ("model", "dims", "window_tokens", "provider_asked", "provider", "device", "threads", "versions", "max_texts", "queued_queries", "queued_passages")
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DIMS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_ASKED_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_TEXTS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_QUERIES_FIELD_NUMBER: _ClassVar[int]
    QUEUED_PASSAGES_FIELD_NUMBER: _ClassVar[int]
    model: str
    dims: int
    window_tokens: int
    provider_asked: str
    provider: str
    device: str
    threads: int
    versions: _containers.ScalarMap[str, str]
    max_texts: int
    queued_queries: int
    queued_passages: int
    def __init__(self, model: _Optional[str] = ..., dims: _Optional[int] = ..., window_tokens: _Optional[int] = ..., provider_asked: _Optional[str] = ..., provider: _Optional[str] = ..., device: _Optional[str] = ..., threads: _Optional[int] = ..., versions: _Optional[_Mapping[str, str]] = ..., max_texts: _Optional[int] = ..., queued_queries: _Optional[int] = ..., queued_passages: _Optional[int] = ...) -> None: ...
