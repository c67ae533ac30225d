# The one image of Tenantry: operator, api and engines. `make image` builds it.
FROM python:3.11-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /opt/venv && python -m venv /opt/build
COPY requirements.lock requirements-build.lock ./
RUN /opt/venv/bin/pip install --require-hashes --only-binary=:all: --no-compile -r requirements.lock \
 && /opt/build/bin/pip install --require-hashes --only-binary=:all: -r requirements-build.lock
COPY pyproject.toml README.md ./
COPY operator operator
RUN /opt/build/bin/hatchling build -t wheel \
 && /opt/venv/bin/pip install --no-deps --no-index --no-compile dist/*.whl \
 && /opt/venv/bin/pip uninstall --yes pip setuptools \
 && /opt/venv/bin/python -m compileall -qq --invalidation-mode unchecked-hash /opt/venv/lib

FROM python:3.11-slim-bookworm
# What a Source needs: the repository, by https and ssh, and the keys that signed its commits.
RUN apt-get update && apt-get install --yes --no-install-recommends git openssh-client gnupg && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/venv /opt/venv
# Python's own modules come without bytecode. Nobody may write it later, and each start would compile for 2 CPU seconds.
RUN python -m compileall -qq --invalidation-mode unchecked-hash /usr/local/lib/python3.11
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
WORKDIR /tmp
USER 65534:65534
EXPOSE 8080
ENTRYPOINT ["tenantry"]
