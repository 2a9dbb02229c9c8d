# The embedding sidecar. Build from the repository's root:
#
#   docker build -f deploy/embedder.Dockerfile -t memlane-embedder .
#   docker build -f deploy/embedder.Dockerfile -t memlane-embedder-gpu \
#     --build-arg EXTRA=embedder-gpu --build-arg BASE=nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04 .
#
# Model folders are mounted, never baked in:
#
#   docker run -v /srv/models:/models:ro -p 50051:50051 memlane-embedder \
#     --model /models/multilingual-e5-small
#
# A folder comes from `memlane model build multilingual-e5-small --out ...`, or from a model hub; see
# docs/EMBEDDER.md. On Kubernetes use the built-in gRPC probe on port 50051.
ARG BASE=python:3.12-slim
FROM ${BASE}

ARG EXTRA=embedder
# A CUDA image comes without Python.
RUN command -v python3 && python3 -m venv --help >/dev/null 2>&1 \
    || (apt-get update && apt-get install -y --no-install-recommends python3 python3-venv \
        && rm -rf /var/lib/apt/lists/*)
RUN python3 -m venv /opt/memlane
ENV PATH=/opt/memlane/bin:$PATH MEMLANE_PURE=1 MEMLANE_MODELS=/models PYTHONUNBUFFERED=1

WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
COPY service service
COPY embedder embedder
COPY golden golden
RUN pip install --no-cache-dir ".[${EXTRA}]" && rm -rf /src/*

RUN useradd --system --uid 10001 memlane
USER memlane
WORKDIR /
EXPOSE 50051
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["python", "-m", "embedder.probe"]
ENTRYPOINT ["python", "-m", "embedder", "--address", "0.0.0.0:50051"]
