# The lab in a container, on x86-64 and aarch64:
#   docker compose run --rm --service-ports lab
# compose.yaml mounts the checkout at /lab, so that what a reader writes stays when the container is removed.
# "base" has what the lab needs of a system; .devcontainer builds on it.
FROM python:3.12-slim AS base
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ git make nodejs npm \
    && rm -rf /var/lib/apt/lists/*
# Nobody works as root. What is written to the checkout belongs to the host's user of the same number:
#   docker compose build --build-arg USER_ID=$(id -u)
ARG USER_ID=1000
RUN useradd --create-home --uid $USER_ID reader && install -d -o reader -g reader /lab
USER reader

FROM base AS lab
WORKDIR /lab
COPY --chown=reader:reader . .
RUN make venv .venv-lab/.installed
EXPOSE 8888
CMD ["make", "lab"]
