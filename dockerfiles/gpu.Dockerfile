# Kolo on a machine with NVIDIA GPUs: as cpu.Dockerfile, and CUDA 13's compiler and libraries, cuDNN and NCCL from PyPI
# (cuda.txt), with the plugin for GPUs built. The machine brings the driver (580 or newer) and NVIDIA's container toolkit.
#
#   docker build -t kolo-gpu -f dockerfiles/gpu.Dockerfile .
#   docker run --rm -it --init --gpus all -p 127.0.0.1:8888:8888 --shm-size=1g --ulimit memlock=-1 \
#       --user "$(id -u):$(id -g)" kolo-gpu
#
# The rest is as there. Whether it works: docker run --rm --gpus all kolo-gpu make test-gpu
ARG BASE=debian:12
FROM ${BASE}
WORKDIR /kolo

# What changes seldom comes first, so that a change of the source rebuilds only the last layers.
COPY dockerfiles dockerfiles
RUN dockerfiles/setup.sh packages && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN dockerfiles/setup.sh venv && rm -rf /root/.cache
RUN dockerfiles/setup.sh cuda && rm -rf /root/.cache

# What NVIDIA's container toolkit reads, and where cuDNN finds what it loads as it needs it.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    CUDA_HOME=/kolo/.cuda/nvidia/cu13 CUDNN_HOME=/kolo/.cuda/nvidia/cudnn NCCL_HOME=/kolo/.cuda/nvidia/nccl \
    LD_LIBRARY_PATH=/kolo/.cuda/nvidia/cu13/lib:/kolo/.cuda/nvidia/cudnn/lib:/kolo/.cuda/nvidia/nccl/lib

# Whoever runs the container may write anywhere but in .venv and .cuda, whatever their user id.
COPY . .
RUN make setup && make cuda \
    && dockerfiles/sbom.py >sbom.spdx.json \
    && mkdir -m 1777 /home/learner \
    && find . \( -path ./.venv -o -path ./.cuda \) -prune -o -exec chmod a+rwX {} +
ENV HOME=/home/learner IP=0.0.0.0 PORT=8888 NO_BROWSER=1
EXPOSE 8888
CMD ["dockerfiles/lab.sh"]
