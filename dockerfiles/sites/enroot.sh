#!/bin/bash
# Kolo for Enroot, on clusters whose SLURM has Pyxis: makes kolo.sqsh from the image that Docker or Podman built.
#   dockerfiles/sites/enroot.sh [IMAGE=kolo] [FILE=kolo.sqsh]
#   srun --container-image=$PWD/kolo.sqsh --container-writable kolorun -np 8 cnn_mnist --epochs 1
set -euo pipefail
image=${1:-kolo} file=${2:-kolo.sqsh}
fail() { echo "kolo: $*" >&2; exit 1; }

(($# <= 2)) || fail "enroot.sh takes an image and a file, got $# words."
command -v enroot >/dev/null || fail "there is no enroot here: run this on a node that has it."
[[ ! -e $file ]] || fail "$file exists already: choose another name, or remove it."
for engine in docker podman; do
    if command -v "$engine" >/dev/null && "$engine" image inspect "$image" >/dev/null 2>&1; then
        case $engine in docker) exec enroot import --output "$file" "dockerd://$image" ;; podman) exec enroot import --output "$file" "podman://$image" ;; esac
    fi
done
fail "neither docker nor podman has an image $image: build it with 'docker build -t $image -f dockerfiles/cpu.Dockerfile .'"
