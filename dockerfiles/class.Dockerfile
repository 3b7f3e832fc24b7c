# Kolo for a class, a container a learner: kolo-class starts them. On kolo (cpu.Dockerfile) or kolo-gpu, with the data in
# it, so that on the day nothing is fetched; and whether its JupyterLab answers, for `docker ps`.
#
#   docker build -t kolo-class -f dockerfiles/class.Dockerfile .                           BASE=kolo-gpu with GPUs
#   dockerfiles/kolo-class start 20                                                        starts twenty, prints their URLs
#
# podman takes --format docker, too: its own format has no health check.
# DATA=mnist fetches that set alone; DATA=none none: then kolo-class mounts a folder that holds them. They are in /data, where
# programs find them by ~/.cache/kolo; KOLO_DATA stays unset, so that lessons without data draw their own.
ARG BASE=kolo
FROM ${BASE}
ARG DATA=
USER root
RUN mkdir -p /data && { [ "${DATA}" = none ] || KOLO_DATA=/data build/bin/kolo-data ${DATA}; } && chmod -R a+rX /data \
    && mkdir -p /home/learner/.cache && chmod 1777 /home/learner/.cache && ln -s /data /home/learner/.cache/kolo
USER 1000
# What the learner changes stays in a volume here; a new volume begins as the lessons are.
VOLUME /kolo/labs
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD [".venv/bin/python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8888/api', timeout=4)"]
