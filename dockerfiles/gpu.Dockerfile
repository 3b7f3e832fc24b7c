# Kolo on a machine with NVIDIA GPUs: as cpu.Dockerfile, and CUDA's compiler and libraries, cuDNN and NCCL, with the plugin
# for GPUs built. The machine brings the driver and NVIDIA's container toolkit.
#
#   docker build -t kolo-gpu -f dockerfiles/gpu.Dockerfile .                         CUDA 13 from PyPI; driver 580 or newer
#   docker build -t kolo-gpu -f dockerfiles/gpu.Dockerfile --build-arg CUDA=12 \
#       --build-arg TOOLKIT=nvidia/cuda:12.9.1-devel-ubuntu22.04 .                   Volta (V100); driver 525 or newer
#   docker run --rm -it --init --gpus all -p 127.0.0.1:8888:8888 --shm-size=1g --ulimit memlock=-1 kolo-gpu
#
# TOOLKIT is an image that has the compiler in /usr/local/cuda: NVIDIA's are on Ubuntu, and what is taken from them runs on
# Debian 12 as well. PyPI has no nvcc of CUDA 12, so CUDA=12 wants one. BASE is Debian 12 or made from it, since Kolo's
# packages are Debian's. CUDNN=9.10.2.21 and NCCL=2.27.3 take these versions instead of those in cuda.txt; Volta wants
# cuDNN 9.10 or older. NCCL's ranks speak through /dev/shm, and pin memory: --shm-size and memlock. The rest is as there.
# Whether it works: docker run --rm --gpus all kolo-gpu make test-gpu
ARG BASE=debian:12
ARG TOOLKIT=${BASE}

# Of a toolkit, what the build needs and the plugin loads: less than half of it.
FROM ${TOOLKIT} AS toolkit
RUN mkdir /toolkit && if [ -x /usr/local/cuda/bin/nvcc ]; then \
        cp -a /usr/local/cuda/. /toolkit && rm -rf /toolkit/nsight* /toolkit/gds* /toolkit/libnvvp && \
        find /toolkit/ -name '*.a' ! -name 'libcudart_static.a' ! -name 'libcudadevrt.a' -delete && \
        find /toolkit/ -name 'lib*.so*' ! -path '*/stubs/*' ! -path '*/nvvm/*' ! -name 'libcudart.*' ! -name 'libcublas*' \
            ! -name 'libnvrtc*' ! -name 'libnvJitLink.*' ! -name 'libnvToolsExt.*' -delete; \
    fi

FROM ${BASE}
WORKDIR /kolo

# What changes seldom comes first, so that a change of the source rebuilds only the last layers.
ENV KOLO_PACKAGES="to build,to run"
COPY dockerfiles/setup.sh dockerfiles/packages.txt dockerfiles/
# clang's own archives, 300 MB, are for who builds another clang.
RUN dockerfiles/setup.sh packages && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/lib/llvm-19/lib/*.a
COPY dockerfiles/requirements.txt dockerfiles/jupyterlab.json dockerfiles/
RUN dockerfiles/setup.sh venv && rm -rf /root/.cache
COPY --from=toolkit /toolkit /usr/local/cuda
ARG CUDA=13
ARG CUDNN=
ARG NCCL=
COPY dockerfiles/cuda.txt dockerfiles/
RUN KOLO_TOOLKIT=/usr/local/cuda CUDA=${CUDA} CUDNN=${CUDNN} NCCL=${NCCL} dockerfiles/setup.sh cuda && rm -rf /root/.cache

# What NVIDIA's container toolkit reads, and where cuDNN finds what it loads as it needs it.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    CUDA_HOME=/kolo/.cuda/toolkit CUDNN_HOME=/kolo/.cuda/nvidia/cudnn NCCL_HOME=/kolo/.cuda/nvidia/nccl \
    LD_LIBRARY_PATH=/kolo/.cuda/toolkit/lib:/kolo/.cuda/toolkit/lib64:/kolo/.cuda/nvidia/cudnn/lib:/kolo/.cuda/nvidia/nccl/lib

# Whoever runs the container may write anywhere but in .venv and .cuda, whatever their user id.
COPY . .
RUN make setup && make cuda \
    && dockerfiles/sbom.py >sbom.spdx.json \
    && useradd --uid 1000 --home-dir /home/learner --no-create-home --shell /bin/bash learner \
    && mkdir -m 1777 /home/learner \
    && find . \( -path ./.venv -o -path ./.cuda \) -prune -o -exec chmod a+rwX {} +
ENV HOME=/home/learner LANG=C.UTF-8 PATH=/kolo/build/bin:/kolo/.venv/bin:$PATH IP=0.0.0.0 PORT=8888 NO_BROWSER=1
USER 1000
EXPOSE 8888
CMD ["dockerfiles/lab.sh"]
