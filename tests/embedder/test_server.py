from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from embedder.embed_pb2 import (
    EmbedPassagesRequest,
    EmbedQueryRequest,
    InfoRequest,
    SplitRequest,
)
from tests.embedder.world import WAIT_S, Sidecar

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def cosine(first: bytes, second: bytes) -> float:
    one, two = (np.frombuffer(vector, np.int8).astype(float) for vector in (first, second))
    return float(one @ two) / math.sqrt(float(one @ one) * float(two @ two))


def test_a_query_comes_back_as_int8_of_the_models_dims(sidecar: Sidecar) -> None:
    reply = sidecar.stub.EmbedQuery(EmbedQueryRequest(text="some words"), timeout=WAIT_S)
    assert (reply.model, reply.dims) == (sidecar.model.id, 32)
    vector = np.frombuffer(reply.embedding.vector, np.int8)
    assert len(vector) == 32
    assert np.abs(vector.astype(int)).max() == 127
    assert reply.embedding.tokens == len(sidecar.model.tokenizer.query("some words"))
    assert not reply.embedding.truncated


def test_passages_come_back_in_their_order(sidecar: Sidecar) -> None:
    texts = ["some words", "completely different zebra", "some words again"]
    request = EmbedPassagesRequest(texts=texts, model=sidecar.model.id)
    reply = sidecar.stub.EmbedPassages(request, timeout=WAIT_S)
    expected = [sidecar.model.tokenizer.passage(text) for text in texts]
    assert [found.tokens for found in reply.embeddings] == [len(tokens) for tokens in expected]
    for found, tokens in zip(reply.embeddings, expected, strict=True):
        assert cosine(found.vector, sidecar.gate([tokens])[0]) > 0.999


def test_a_text_over_the_window_is_embedded_and_marked(sidecar: Sidecar) -> None:
    request = EmbedPassagesRequest(texts=["word " * 400, "short"])
    reply = sidecar.stub.EmbedPassages(request, timeout=WAIT_S)
    assert [(found.tokens, found.truncated) for found in reply.embeddings] == [
        (64, True),
        (len(sidecar.model.tokenizer.passage("short")), False),
    ]


def test_split_is_in_code_points_and_fits_the_window_with_its_prefix(sidecar: Sidecar) -> None:
    text = "🙂 記事 " * 60
    reply = sidecar.stub.Split(SplitRequest(texts=[text, ""]), timeout=WAIT_S)
    [spans, empty] = reply.texts
    assert (list(empty.spans), empty.dropped_tokens) == ([], 0)
    parts = [text[span.start : span.end] for span in spans.spans]
    assert "".join("".join(parts).split()) == "".join(text.split())
    request = EmbedPassagesRequest(texts=parts)
    embedded = sidecar.stub.EmbedPassages(request, timeout=WAIT_S).embeddings
    assert not any(found.truncated for found in embedded)
    assert max(found.tokens for found in embedded) > 50  # it uses the window


def test_split_takes_a_smaller_size_and_counts_what_its_cap_drops(sidecar: Sidecar) -> None:
    request = SplitRequest(texts=["word " * 100], max_tokens=20, max_passages=2)
    [spans] = sidecar.stub.Split(request, timeout=WAIT_S).texts
    assert len(spans.spans) == 2
    assert all(span.tokens <= 20 for span in spans.spans)
    total = sidecar.stub.Split(SplitRequest(texts=["word " * 100], max_tokens=20), timeout=WAIT_S)
    assert spans.dropped_tokens == sum(span.tokens for span in total.texts[0].spans[2:])


def test_info_says_what_really_runs(sidecar: Sidecar) -> None:
    info = sidecar.stub.Info(InfoRequest(), timeout=WAIT_S)
    assert (info.model, info.dims, info.window_tokens) == (sidecar.model.id, 32, 64)
    assert (info.provider, info.device, info.threads) == ("CPUExecutionProvider", "cpu", 1)
    assert info.max_texts == 256
    assert {"onnxruntime", "tokenizers"} <= set(info.versions)
    assert (info.queued_queries, info.queued_passages) == (0, 0)


def test_health_is_the_standard_service(sidecar: Sidecar) -> None:
    assert sidecar.health() == SERVING
    assert sidecar.health("memlane.embed.v1.Embedder") == SERVING
    with pytest.raises(grpc.RpcError) as raised:
        sidecar.health("another")
    assert raised.value.code() == grpc.StatusCode.NOT_FOUND


def test_reflection_only_where_asked_for(sidecar: Sidecar, tiny: Path) -> None:
    def listed(server: Sidecar) -> set[str]:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(server.channel)
        asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        [answer] = stub.ServerReflectionInfo(asked, timeout=WAIT_S)
        return {service.name for service in answer.list_services_response.service}

    with Sidecar(tiny, reflection=True) as server:
        assert {"memlane.embed.v1.Embedder", "grpc.health.v1.Health"} <= listed(server)
    with pytest.raises(grpc.RpcError) as raised:
        listed(sidecar)
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_stopping_server_says_so_and_finishes_what_it_took(tiny: Path) -> None:
    with Sidecar(tiny) as server:
        server.gate.open.clear()
        asked = server.stub.EmbedQuery.future(EmbedQueryRequest(text="words"), timeout=WAIT_S)
        server.gate.wait_entered()
        server.stop_soon()
        codes = [grpc.StatusCode.DEADLINE_EXCEEDED]
        while codes[-1] == grpc.StatusCode.DEADLINE_EXCEEDED:  # until it is told to stop
            with pytest.raises(grpc.RpcError) as raised:
                server.stub.EmbedQuery(EmbedQueryRequest(text="new"), timeout=0.2)
            codes.append(raised.value.code())
        assert codes[-1] == grpc.StatusCode.UNAVAILABLE
        assert server.health() == NOT_SERVING
        server.gate.open.set()
        assert len(asked.result().embedding.vector) == 32
