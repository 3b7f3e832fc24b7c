# Kolo on a machine without GPUs: Debian 12, the packages, .venv, the build, JupyterLab on port 8888.
#
#   docker build -t kolo -f dockerfiles/cpu.Dockerfile .
#   docker run --rm -it --init -p 127.0.0.1:8888:8888 --shm-size=1g kolo
#
# It prints the URL with its token. --shm-size: ranks on one host speak through /dev/shm, of which Docker gives 64 MB;
# --ipc=host gives all that the machine has. The user is 1000, not root, and may be any other: with
# --user "$(id -u):$(id -g)" -v "$PWD/labs:/kolo/labs" what you write stays, and is yours. -v FOLDER:/data -e KOLO_DATA=/data
# brings your data. After the build nothing is fetched. podman and buildah take the same file.
ARG BASE=debian:12
FROM ${BASE}
WORKDIR /kolo

# What changes seldom comes first, so that a change of the source rebuilds only the last layer.
ENV KOLO_PACKAGES="to build,to run"
COPY dockerfiles/setup.sh dockerfiles/packages.txt dockerfiles/
# clang's own archives, 300 MB, are for who builds another clang.
RUN dockerfiles/setup.sh packages && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/lib/llvm-19/lib/*.a
COPY dockerfiles/requirements.txt dockerfiles/jupyterlab.json dockerfiles/
RUN dockerfiles/setup.sh venv && rm -rf /root/.cache

# Whoever runs the container may write anywhere but in .venv, whatever their user id.
COPY . .
RUN make setup \
    && dockerfiles/sbom.py >sbom.spdx.json \
    && useradd --uid 1000 --home-dir /home/learner --no-create-home --shell /bin/bash learner \
    && mkdir -m 1777 /home/learner \
    && find . -path ./.venv -prune -o -exec chmod a+rwX {} +
ENV HOME=/home/learner LANG=C.UTF-8 PATH=/kolo/build/bin:/kolo/.venv/bin:$PATH IP=0.0.0.0 PORT=8888 NO_BROWSER=1
USER 1000
EXPOSE 8888
CMD ["dockerfiles/lab.sh"]
