#!/bin/bash
# A class on this machine: a container of kolo-class (class.Dockerfile) a learner, each with a port, a token and a volume
# of its own.
#   class.sh start N            learner1 … learnerN; those that run already go on
#   class.sh start FILE         a learner a line: letters, digits, - and _
#   class.sh list               names, whether they are well, and URLs
#   class.sh stop [NAME …]      what was written stays for the next start
#   class.sh forget [NAME …]    stopped, and what was written is deleted
# Without names: all. The environment says what each may use:
#   CPUS=2 MEMORY=4g            cores and memory
#   GPUS=0                      how many GPUs the machine has, dealt to the learners in turn; several share one
#   PORT=9001                   the first one's; the next ones follow
#   ADDRESS=127.0.0.1           where they listen; 0.0.0.0: for everybody, over plain HTTP, the token in the URL
#   HOST=localhost              this machine's name in the URLs
#   DATA=FOLDER                 the data, if the image has none
#   IMAGE=kolo-class
set -euo pipefail
cpus=${CPUS:-2} memory=${MEMORY:-4g} gpus=${GPUS:-0} first=${PORT:-9001} address=${ADDRESS:-127.0.0.1}
host=${HOST:-localhost} image=${IMAGE:-kolo-class}
label=kolo-class

fail() { echo "kolo: $*" >&2; exit 1; }

command -v docker >/dev/null || fail "there is no docker here: install Docker, then run this again."
[[ $gpus =~ ^[0-9]+$ ]] || fail "GPUS is how many GPUs this machine has, got '$gpus'."
[[ $first =~ ^[0-9]{1,5}$ ]] && ((10#$first >= 1 && 10#$first <= 65535)) || fail "PORT is a number from 1 to 65535, got '$first'."

# The learners of a number or of a file, one a line.
learners() {
    if [[ ${1:-} =~ ^[0-9]{1,3}$ ]]; then
        ((10#$1 > 0)) || fail "start wants at least one learner, got '$1'."
        seq -f 'learner%.0f' "$1"
    else
        [[ -r ${1:-} ]] || fail "start wants a number up to 999 or a file of names, got '${1:-}'."
        ! grep -Evn '^[A-Za-z0-9][A-Za-z0-9_-]*$' "$1" >&2 || fail "$1: a name is letters, digits, - and _; the lines above are not."
        [[ -z $(sort "$1" | uniq -d) ]] || fail "$1: $(sort "$1" | uniq -d | head -n 1) stands there twice."
        cat "$1"
    fi
}

containers() { docker ps --all --filter "label=$label" --format '{{.Names}}' | sort -V; }

# Those of the given learners, or all.
chosen() {
    if (($#)); then printf 'kolo-%s\n' "$@"; else containers; fi
}

# A port that no container of the class has, from the first on.
free_port() {
    local taken port=$first
    taken=$(docker ps --all --filter "label=$label" --format "{{.Label \"$label.port\"}}")
    while grep -qx "$port" <<<"$taken"; do port=$((port + 1)); done
    ((port <= 65535)) || fail "no port is left from $first on."
    echo "$port"
}

start() {
    local names name port number=0 more known
    names=$(learners "$@")
    [[ -n $names ]] || fail "$1 names nobody."
    docker image inspect "$image" >/dev/null 2>&1 ||
        fail "there is no image $image: build it with 'docker build -t $image -f dockerfiles/class.Dockerfile .'"
    known=$(containers)
    while read -r name; do
        number=$((number + 1))
        if grep -qx "kolo-$name" <<<"$known"; then
            docker start "kolo-$name" >/dev/null || fail "$name could not be started."
            continue
        fi
        port=$(free_port)
        more=()
        ((gpus == 0)) || more+=(--gpus "device=$(((number - 1) % gpus))" --ulimit memlock=-1)
        [[ -z ${DATA:-} ]] || more+=(--volume "$(realpath "$DATA"):/data:ro")
        # Over --env, not on a command line that every user of the machine can read.
        JUPYTER_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') \
            docker run --detach --init --name "kolo-$name" --hostname "$name" --label "$label" --label "$label.port=$port" \
            --env JUPYTER_TOKEN --publish "$address:$port:8888" --cpus "$cpus" --memory "$memory" --pids-limit 2000 \
            --shm-size 1g --restart unless-stopped --volume "kolo-$name:/kolo/labs" "${more[@]}" "$image" >/dev/null ||
            fail "$name could not be started."
    done <<<"$names"
    list
}

list() {
    local container port token
    containers | while read -r container; do
        port=$(docker inspect --format "{{index .Config.Labels \"$label.port\"}}" "$container")
        token=$(docker inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "$container" | sed -n 's/^JUPYTER_TOKEN=//p')
        printf '%-20s %-24s http://%s:%s/lab/tree/Start_Here.ipynb?token=%s\n' "${container#kolo-}" \
            "$(docker ps --all --filter "name=^$container\$" --format '{{.Status}}')" "$host" "$port" "$token"
    done
}

stop() { chosen "$@" | xargs -r docker stop >/dev/null; }

forget() {
    local names
    names=$(chosen "$@")
    [[ -n $names ]] || return 0
    xargs docker rm --force <<<"$names" >/dev/null
    xargs docker volume rm <<<"$names" >/dev/null
}

command=${1:-}
case $command in
start | list | stop | forget) shift; "$command" "$@" ;;
*) fail "class.sh takes start, list, stop or forget" ;;
esac
