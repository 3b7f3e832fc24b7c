# A container of the image a learner, by docker or podman; sourced by kolo-class.
label=kolo-class

command -v "$with" >/dev/null || fail "there is no $with here: install it, or give each learner an account with WITH=users."

known() { "$with" ps --all --filter "label=$label" --format '{{.Names}}' | sed 's/^kolo-//' | sort -V; }

port_of() { "$with" inspect --format "{{index .Config.Labels \"$label.port\"}}" "kolo-$1"; }

add() {
    local name=$1 number=$2 port more=()
    "$with" image inspect "$image" >/dev/null 2>&1 ||
        fail "there is no image $image: build it with '$with build $([[ $with == docker ]] || echo '--format docker ')-t $image -f dockerfiles/class.Dockerfile .'"
    port=$(free_port) || return 1
    if ((gpus)); then
        if [[ $with == docker ]]; then
            more+=(--gpus "device=$(((number - 1) % gpus))" --ulimit memlock=-1)
        else
            more+=(--device "nvidia.com/gpu=$(((number - 1) % gpus))" --ulimit memlock=-1)
        fi
    fi
    ((debugger == 0)) || more+=(--cap-add SYS_PTRACE)
    [[ -z ${DATA:-} ]] || more+=(--volume "$(realpath "$DATA"):/data:ro")
    # Over --env, not on a command line that every user of the machine can read.
    JUPYTER_TOKEN=$(new_token) \
        "$with" run --detach --init --name "kolo-$name" --hostname "$name" --label "$label" --label "$label.port=$port" \
        --env JUPYTER_TOKEN --publish "$address:$port:8888" --cpus "$cpus" --memory "$memory" --pids-limit 2000 \
        --shm-size 1g --restart unless-stopped --volume "kolo-$name:/kolo/labs" "${more[@]}" "$image" >/dev/null
}

resume() { "$with" start "kolo-$1" >/dev/null; }

facts() {
    local token
    token=$("$with" inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "kolo-$1" | sed -n 's/^JUPYTER_TOKEN=//p')
    echo "$(port_of "$1") $token $("$with" ps --all --filter "name=^kolo-$1\$" --format '{{.Status}}')"
}

halt() { printf 'kolo-%s\n' "$@" | xargs "$with" stop >/dev/null; }

remove() {
    printf 'kolo-%s\n' "$@" | xargs "$with" rm --force >/dev/null
    printf 'kolo-%s\n' "$@" | xargs "$with" volume rm >/dev/null
}
