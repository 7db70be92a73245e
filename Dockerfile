# The lab in a container, on x86-64 and aarch64:
#   docker compose run --rm --service-ports lab
# compose.yaml mounts the checkout at /lab, so that what a reader writes stays when the container is removed.
# "base" has what the lab needs of a system; .devcontainer builds on it.
FROM python:3.12-slim AS base
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ git make \
    && rm -rf /var/lib/apt/lists/*

FROM base AS lab
WORKDIR /lab
COPY . .
RUN make venv .venv-lab/.installed
EXPOSE 8888
CMD ["make", "lab"]
