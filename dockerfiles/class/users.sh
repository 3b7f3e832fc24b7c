# An account of this machine a learner: kolo-NAME, with a copy of the lessons in its home; sourced by kolo-class. A
# learner's share of cores and memory is a slice of systemd where that runs, else a control group of the kernel's
# (version 2 or 1). Where there is neither, start refuses: one learner could take all.
class=/var/lib/kolo-class
top=$(realpath "$here/..")

((EUID == 0)) || fail "accounts for learners are made by root: run this with sudo."
[[ -x $top/.venv/bin/jupyter && -x $top/build/bin/kolo-kernel ]] || fail "Kolo is not built in $top: run 'make setup' there first."
mkdir -p "$class"

account() { echo "kolo-$1"; }
known() { ls "$class" 2>/dev/null | sort -V; }
port_of() { cat "$class/$1/port"; }

bytes() {
    case $memory in
    *[mM]) echo $((${memory%[mM]} << 20)) ;;
    *) echo $((${memory%[gG]} << 30)) ;;
    esac
}
# Of 100,000 microseconds, those that a learner's processes may compute in.
quota() { awk -v cores="$cpus" 'BEGIN { printf "%d", cores * 100000 }'; }

groups=/sys/fs/cgroup
manager() {
    if [[ -d /run/systemd/system ]]; then
        echo systemd
    elif [[ -e $groups/cgroup.subtree_control && -w $groups/cgroup.subtree_control ]]; then
        echo v2
    elif [[ -w $groups/memory && -w $groups/cpu && -w $groups/pids ]]; then
        echo v1
    else
        fail "this machine lets nobody set shares of cores and memory (no systemd, no control groups that root can write): use WITH=docker."
    fi
}

manager >/dev/null   # here and not in $(…), so that its failure ends the command

# A group with the limits, that the calling shell joins: it and its children are in it from here on. What cannot be set
# fails the whole: a learner without limits could take all.
join_group() {
    local name=kolo-$1 part
    case $(manager) in
    v2)
        echo '+cpu +memory +pids' >$groups/cgroup.subtree_control && mkdir -p "$groups/$name" &&
            echo "$(quota) 100000" >"$groups/$name/cpu.max" && bytes >"$groups/$name/memory.max" &&
            { [[ ! -e $groups/$name/memory.swap.max ]] || echo 0 >"$groups/$name/memory.swap.max"; } &&
            echo 2000 >"$groups/$name/pids.max" && echo $BASHPID >"$groups/$name/cgroup.procs"
        ;;
    v1)
        mkdir -p "$groups"/{cpu,memory,pids}/"$name" && echo 100000 >"$groups/cpu/$name/cpu.cfs_period_us" &&
            quota >"$groups/cpu/$name/cpu.cfs_quota_us" && bytes >"$groups/memory/$name/memory.limit_in_bytes" &&
            echo 2000 >"$groups/pids/$name/pids.max" || return 1
        for part in cpu memory pids; do echo $BASHPID >"$groups/$part/$name/cgroup.procs" || return 1; done
        ;;
    esac
}

group_files() { ls -d "$groups/kolo-$1" "$groups"/{cpu,memory,pids}/"kolo-$1" 2>/dev/null || true; }

# Ends whatever the learner has running, forks included. It takes up to 5 seconds, and several learners' can run at once.
end_group() {
    local name=$1 user
    user=$(account "$name")
    if [[ $(manager) == systemd ]]; then
        systemctl stop "$user.service" 2>/dev/null || true
    else
        pkill -TERM -u "$user" -f jupyter-lab || true
        for _ in $(seq 50); do pgrep -u "$user" >/dev/null || break; sleep 0.1; done
        while pkill -KILL -u "$user"; do sleep 0.1; done
        group_files "$name" | while read -r folder; do rmdir "$folder" 2>/dev/null || true; done
    fi
}

# From the first moment on: lab.sh becomes jupyter-lab.
runs() { pgrep -u "$(account "$1")" -f 'dockerfiles/lab\.sh|jupyter-lab' >/dev/null 2>&1; }

# Whether JupyterLab answers at the learner's port.
answers() {
    local at
    at=$(cat "$class/$1/address" 2>/dev/null || echo "$address")
    [[ $at != 0.0.0.0 ]] || at=127.0.0.1
    (exec 3<>"/dev/tcp/$at/$(port_of "$1")") 2>/dev/null
}

# What the learner's JupyterLab finds in its environment. A learner may read it: it is the learner's own. Kernels' sockets
# are in Jupyter's runtime folder, whose name is short, since a socket's path has 107 bytes.
environment() {
    local home=$1 name=$2
    printf '%s\n' "HOME=$home" "USER=$(account "$name")" "LANG=C.UTF-8" "PATH=/usr/local/bin:/usr/bin:/bin" "SHELL=/bin/bash" \
        "JUPYTER_RUNTIME_DIR=$home/.run" "IP=$address" "PORT=$(port_of "$name")" NO_BROWSER=1 "KOLO_LAB_ROOT=$home/kolo" \
        "JUPYTER_TOKEN=$(cat "$class/$name/token")"
    [[ -z ${DATA:-} ]] || echo "KOLO_DATA=$(realpath "$DATA")"
    ((gpus == 0)) || echo "CUDA_VISIBLE_DEVICES=$(cat "$class/$name/gpu")"
}

begin() {
    local name=$1 user home pid
    user=$(account "$name")
    home=$(getent passwd "$user" | cut -d: -f6)
    echo "$address" >"$class/$name/address" || return 1
    mapfile -t settings < <(environment "$home" "$name")
    if [[ $(manager) == systemd ]]; then
        printf '%s\n' "${settings[@]}" >"$class/$name/environment" || return 1
        systemd-run --quiet --collect --unit "$user" --uid "$user" --property "CPUQuota=$(($(quota) / 1000))%" \
            --property "MemoryMax=$(bytes)" --property MemorySwapMax=0 --property TasksMax=2000 --property Delegate=no \
            --property "EnvironmentFile=$class/$name/environment" --working-directory "$home/kolo" "$top/dockerfiles/lab.sh"
    else
        # The token is in the environment and never on a command line.
        (
            join_group "$name" && cd "$home/kolo" || exit 1
            exec env -i "${settings[@]}" setsid setpriv --reuid "$user" --regid "$user" --init-groups \
                "$top/dockerfiles/lab.sh" </dev/null
        ) >>"$class/$name/log" 2>&1 &
        pid=$!
        disown
        until runs "$name"; do
            kill -0 "$pid" 2>/dev/null || { echo "kolo: $(tail -n 1 "$class/$name/log")" >&2; return 1; }
            sleep 0.05
        done
    fi
}

# The learner's own copy: what may be changed. What is built stays shared and is not the learner's to write.
copy_lessons() {
    local home=$1 user=$2
    install -d -o "$user" -g "$user" "$home/kolo" && cp -r "$top/Start_Here.ipynb" "$top/labs" "$top/source_code" "$home/kolo/" &&
        rm -rf "$home"/kolo/{,labs/,labs/solutions/}{run,.ipynb_checkpoints} && # of whoever tried the lessons here
        chown -R "$user:$user" "$home/kolo" && chmod 700 "$home"
}

add() {
    local name=$1 number=$2 user home port
    user=$(account "$name")
    if getent passwd "$user" >/dev/null; then fail "there is an account $user already, which is not this class's."; fi
    su -s /bin/sh nobody -c "test -x '$top/.venv/bin/jupyter' && test -r '$top/build/lib/libkolo.so'" 2>/dev/null ||
        fail "learners cannot read $top: put Kolo where all accounts may read, /opt/kolo for example."
    port=$(free_port) || return 1
    useradd --create-home --shell /bin/bash "$user" || return 1
    home=$(getent passwd "$user" | cut -d: -f6)
    # What is half made, on a full disk for example, goes again.
    { copy_lessons "$home" "$user" && note "$name" "$port" "$number" && begin "$name"; } || { remove "$name"; return 1; }
}

# What this class knows of a learner. The number deals the GPUs.
note() {
    (umask 077; mkdir -p "$class/$1" && new_token >"$class/$1/token" && echo "$2" >"$class/$1/port" &&
        echo $((gpus ? ($3 - 1) % gpus : 0)) >"$class/$1/gpu")
}

resume() { runs "$1" || begin "$1"; }

facts() {
    local state=stopped
    if runs "$1"; then
        state=starting
        ! answers "$1" || state=running
    fi
    echo "$(port_of "$1") $(cat "$class/$1/token") $state"
}

end_groups() {
    local name
    for name; do end_group "$name" & done
    wait
}

halt() { end_groups "$@"; }

# Files outside of the home folder go too: the next account may get the same number, and would own them.
remove() {
    local name whose=()
    end_groups "$@"
    for name; do whose+=(-o -user "$(account "$name")"); done
    find /tmp /var/tmp /dev/shm -xdev \( "${whose[@]:1}" \) -delete 2>/dev/null || true
    for name; do
        userdel --remove "$(account "$name")" 2>/dev/null || true
        rm -rf "${class:?}/$name"
    done
}
