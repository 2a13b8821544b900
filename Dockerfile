# An Ottla node (the default), or a Connect worker with Spark (--target connect). See docs/deploy.md.
# PYTHON is any image with Python 3.11 or newer and apt.
ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
# A compiler for the two C modules of the Spark source; they are optional, and the final images have none.
# The versions of the operating system's packages are those of the base image's release.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY requirements/cli.lock requirements/
RUN python3 -m venv /opt/ottla && /opt/ottla/bin/pip install --no-cache-dir --require-hashes -r requirements/cli.lock
COPY pyproject.toml setup.py README.md LICENSE ./
COPY src src
RUN /opt/ottla/bin/pip install --no-cache-dir --no-deps . && /opt/ottla/bin/python -m compileall -q /opt/ottla/lib

FROM build AS build-connect
COPY requirements/dev.lock requirements/spark.lock requirements/
# Build tools first, by hash: pyspark comes as source.
RUN /opt/ottla/bin/pip install --no-cache-dir --require-hashes -r requirements/dev.lock \
    && /opt/ottla/bin/pip install --no-cache-dir --require-hashes --no-build-isolation -r requirements/spark.lock

FROM ${PYTHON} AS base
RUN useradd --system --uid 10001 --home-dir /var/lib/ottla --create-home ottla
ENV PATH=/opt/ottla/bin:$PATH
# By number, so that Kubernetes can see that it is not root.
USER 10001
WORKDIR /var/lib/ottla
VOLUME /var/lib/ottla
STOPSIGNAL SIGTERM

FROM base AS connect
USER 0
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build-connect /opt/ottla /opt/ottla
USER 10001
EXPOSE 8083
ENTRYPOINT ["ottla", "connect", "distributed"]

# The last stage is the default.
FROM base AS node
COPY --from=build /opt/ottla /opt/ottla
EXPOSE 9092 9404
HEALTHCHECK --interval=5s --start-period=10s \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9404/health/ready', timeout=3)"]
ENTRYPOINT ["ottla"]
# A listener without authentication, for a network of containers; publish its port on 127.0.0.1 only.
CMD ["up", "--host", "0.0.0.0", "--advertise", "localhost", "--insecure", "--data", "/var/lib/ottla", \
     "--set", "ottla.metrics.listener=0.0.0.0:9404"]
