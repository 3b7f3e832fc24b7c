#!/bin/bash
# One set of commands for docker, podman and buildah: what differs between them is in this file alone.
#   engine.sh name                                      the engine that is used
#   engine.sh build IMAGE DOCKERFILE FOLDER [NAME=VALUE…]   with these --build-arg
#   engine.sh run IMAGE USER COMMAND [WORD…]            without a network; USER is 1000:1000 or "" for the image's own
#   engine.sh inspect IMAGE                             user, command, ports, volumes and health check, as JSON
#   engine.sh size IMAGE                                in bytes, uncompressed
#   engine.sh remove IMAGE…
#   engine.sh clear                                     ends with STORE and all that is in it; docker and podman have none
# ENGINE chooses; without it, the first that answers. buildah needs root and debootstrap, which makes the Debian that the
# others pull. It keeps everything in STORE and isolates by chroot, so it also works where containers cannot be started.
set -euo pipefail
fail() { echo "engine.sh: $*" >&2; exit 2; }
store=${STORE:-/var/tmp/kolo-images}
base=localhost/kolo-debian:12

choose() {
    if docker info >/dev/null 2>&1; then
        echo docker
    elif podman info >/dev/null 2>&1; then
        echo podman
    elif ((EUID == 0)) && command -v buildah debootstrap >/dev/null; then
        echo buildah
    else
        fail "there is no docker or podman that answers, and no buildah with debootstrap that root may use."
    fi
}

# ---- docker and podman ----
engine_build() { # IMAGE DOCKERFILE FOLDER ARGUMENT…
    local image=$1 file=$2 folder=$3
    shift 3
    [[ $engine == docker ]] || set -- --format docker "$@" # podman's own format has no health check
    "$engine" build --quiet --tag "$image" --file "$file" "$@" "$folder"
}
engine_run() { # IMAGE USER COMMAND…
    local image=$1 user=$2
    shift 2
    "$engine" run --rm --init --network none --shm-size 1g ${user:+--user "$user"} "$image" "$@"
}
engine_inspect() { "$engine" image inspect --format '{{json .Config}}' "$1"; }
engine_size() { "$engine" image inspect --format '{{.Size}}' "$1"; }
engine_remove() { "$engine" image rm --force "$@"; }
engine_clear() { :; }

# ---- buildah ----
own() { buildah --root "$store/root" --runroot "$store/run" --storage-driver "${STORAGE_DRIVER:-overlay}" "$@"; }

# Debian 12 as docker.io has it, but made here, with this machine's certificates.
make_base() {
    local folder=$store/debian container
    ! own inspect --type image "$base" >/dev/null 2>&1 || return 0
    mkdir -p "$store"
    debootstrap --variant=minbase --include=ca-certificates bookworm "$folder" http://deb.debian.org/debian >"$store/debootstrap.log" 2>&1 ||
        fail "debootstrap could not make a Debian: $(tail -n 1 "$store/debootstrap.log")"
    cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/"
    rm -rf "$folder"/var/cache/apt/archives/*.deb "$folder"/var/lib/apt/lists/*
    container=$(own from scratch)
    own copy --quiet "$container" "$folder" / >/dev/null
    own commit --quiet --rm "$container" "$base" >/dev/null
    rm -rf "$folder"
}

buildah_build() {
    local image=$1 file=$2 folder=$3 given
    shift 3
    make_base
    given=" $*"
    [[ $given == *"BASE="* ]] || ! grep -q '^ARG BASE=debian:12' "$file" || set -- "$@" --build-arg "BASE=$base"
    own build --quiet --layers --format docker --isolation chroot --tag "localhost/$image" --file "$file" "$@" "$folder"
}

# A network namespace of its own has a loopback interface and nothing else. The output goes through files: of what a command
# writes last, buildah at times loses some on its own way.
buildah_run() { # IMAGE USER COMMAND…
    local image=$1 user=$2 status=0
    shift 2
    container=$(own from --pull-never "localhost/$image")
    output=$(mktemp -d)
    trap 'own rm "$container" >/dev/null; rm -rf "$output"' EXIT
    chmod 755 "$output" && (umask 0 && touch "$output/stdout" "$output/stderr")
    export -f own
    export store container output
    unshare --net bash -euc 'ip link set lo up; user=$1; shift
        own run --isolation chroot --volume "$output:/output" ${user:+--user "$user"} "$container" -- "$@"' run "$user" \
        sh -c 'exec "$@" >/output/stdout 2>/output/stderr' sh "$@" || status=$?
    cat "$output/stdout"
    cat "$output/stderr" >&2
    exit "$status"
}
buildah_inspect() { own inspect --type image "localhost/$1" | python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["Docker"]["config"]))'; }
buildah_size() { own images --json "localhost/$1" | sed -n 's/.*"size": "\(.*\)".*/\1/p' | tr -d ' B' | numfmt --from=si; }
buildah_remove() {
    local image
    for image; do own rmi --force "localhost/$image"; done
}
buildah_clear() {
    [[ -d $store/root ]] || return 0
    own rm --all >/dev/null
    own rmi --all --force >/dev/null
    rm -rf "$store"
}

engine=${ENGINE:-$(choose)}
case $engine in
docker | podman) way=engine ;;
buildah) way=buildah ;;
*) fail "ENGINE is docker, podman or buildah, got '$engine'." ;;
esac
command=${1:-}
case $command in
name) echo "$engine" ;;
build)
    (($# >= 4)) || fail "build wants an image, a Dockerfile and a folder"
    arguments=()
    for one in "${@:5}"; do arguments+=(--build-arg "$one"); done
    "${way}_build" "$2" "$3" "$4" "${arguments[@]}"
    ;;
run | inspect | size | remove | clear) shift; "${way}_$command" "$@" ;;
*) fail "takes name, build, run, inspect, size, remove or clear" ;;
esac
