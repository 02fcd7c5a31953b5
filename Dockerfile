# The environment of the lock, for machines and clusters where pip cannot be used; docs/cluster.md says how to run it.
#   docker build -t xsa .                                    CUDA 13.0: drivers from 580 on
#   docker build -t xsa --build-arg TORCH=cu126 .            CUDA 12.6: drivers from 525 on
#   docker build -t xsa --build-arg TORCH=cpu .              without a GPU, far smaller
# torch brings its CUDA libraries as wheels, so that the base image needs none; the driver comes from the host.
FROM python:3.11.13-slim-bookworm

ARG TORCH=cu130

SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# g++ and the headers of Python for torch.compile, git for the commit that a record names.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ git make \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/xsa
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN python -m pip install --no-cache-dir --extra-index-url "https://download.pytorch.org/whl/${TORCH}" -r requirements.lock

COPY src ./src
RUN python -m pip install --no-cache-dir --no-deps --no-build-isolation .

# The project is mounted here: Snakefile, config and results are the user's own.
WORKDIR /project
USER 1000
ENV HOME=/tmp
CMD ["xsa", "--help"]
