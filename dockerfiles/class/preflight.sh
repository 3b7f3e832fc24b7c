# What will not work on this machine, lesson by lesson; sourced by kolo-class. LEARNERS=30 is for how many, FAST=1 leaves
# out the lessons themselves. Exit code 1 where something will not work.
top=$(realpath "$here/..")
count=${LEARNERS:-30} problems=0
[[ $count =~ ^[1-9][0-9]{0,2}$ ]] || fail "LEARNERS is a number up to 999, got '$count'."

good() { printf '  ok       %s\n' "$*"; }
warn() { printf '  note     %s\n' "$*"; }
bad() { printf '  PROBLEM  %s\n' "$*"; problems=$((problems + 1)); }

gigabytes() { awk -v kilobytes="$1" 'BEGIN { printf "%.1f", kilobytes / 1048576 }'; }
per_learner() { awk -v all="$1" -v n="$count" 'BEGIN { printf "%.2f", all / n }'; }

check_build() {
    [[ -x $top/.venv/bin/jupyter ]] && good "JupyterLab is in .venv" || bad "there is no .venv: run 'make setup'"
    [[ -x $top/build/bin/kolo-kernel ]] && good "Kolo is built" || bad "Kolo is not built: run 'make setup'"
}

# Megabytes: JupyterLab with a kernel that trains, and eight ranks of lesson 3. CLASS.md has the measurements.
rest=160 eight_ranks=1100

check_memory() {
    local megabytes=$1 at_once
    at_once=$(((megabytes - count * rest) / eight_ranks))
    if ((at_once >= count)); then
        good "$((megabytes / 1024)) GB of memory: enough for all $count learners to run eight ranks at the same time"
    elif ((at_once >= (count + 3) / 4)); then
        warn "$((megabytes / 1024)) GB of memory: enough for $count kernels, and for $at_once learners who run eight ranks (lessons 1 to 8) at the same time"
    else
        bad "$((megabytes / 1024)) GB of memory are too little for $count learners: a kernel takes $rest MB, eight ranks (lessons 1 to 8) take $eight_ranks MB"
    fi
}

check_share() {
    local megabytes=${memory%[mMgG]}
    [[ $memory != *[gG] ]] || megabytes=$((megabytes * 1024))
    ((megabytes >= rest + eight_ranks)) ||
        bad "MEMORY=$memory is too little for a learner: lessons with eight ranks take $((rest + eight_ranks)) MB"
}

check_machine() {
    local cores all free shm
    cores=$(nproc)
    all=$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
    good "$cores cores for $count learners: $(per_learner "$cores") each where all compute at once"
    check_memory "$all"
    check_share
    free=$(df --output=avail -k "$top" | tail -n 1)
    ((free > 2097152)) && good "$(gigabytes "$free") GB are free on the disk" || bad "only $(gigabytes "$free") GB are free on the disk of $top"
    shm=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)
    ((${shm:-0} > 524288)) && good "/dev/shm has $(gigabytes "$shm") GB" ||
        bad "/dev/shm has $(gigabytes "${shm:-0}") GB, and ranks on one host need 0.5 GB: start containers with --shm-size=1g"
}

check_class() {
    local program found=()
    for program in docker podman; do
        command -v "$program" >/dev/null || continue
        if timeout 20 "$program" info >/dev/null 2>&1; then
            found+=("WITH=$program")
        else
            warn "$program does not answer: does its daemon run, and may $(id -un) use it?"
        fi
    done
    if [[ -d /run/systemd/system ]]; then
        found+=("WITH=users (systemd)")
    elif [[ -w /sys/fs/cgroup/cgroup.subtree_control || -w /sys/fs/cgroup/memory ]]; then
        found+=("WITH=users (control groups)")
    fi
    ((${#found[@]})) && good "learners can be kept by ${found[*]}" ||
        bad "there is no docker, podman, systemd or control group that can be written: learners cannot be kept apart"
    [[ -z $with || " ${found[*]}" == *" WITH=$with"* ]] || bad "WITH=$with cannot be used on this machine"
    ! command -v ss >/dev/null || ! ss -Htln "sport >= :$first and sport < :$((first + count))" | grep -q . ||
        warn "some ports from $first to $((first + count - 1)) are in use; PORT names another first one"
}

check_accounts() {
    local path=$top
    [[ $with == users ]] || return 0
    until [[ $path == / ]]; do
        [[ $(stat -c %A "$path") == *[xt] ]] ||
            { bad "accounts of learners cannot read $top, since $path is closed to them: clone Kolo to /opt/kolo and build it there"; return; }
        path=$(dirname "$path")
    done
    good "accounts of learners can read $top"
}

check_data() {
    local set found=${DATA:-${KOLO_DATA:-$HOME/.cache/kolo}}
    for set in mnist cifar-10 higgs; do
        [[ -d $found/$set ]] && good "$set is in $found" || warn "$set is not in $found: the lessons draw their own data instead, and say so"
    done
}

check_ranks() {
    local said
    if said=$("$top/build/bin/kolorun" -np 8 true 2>&1); then
        good "kolorun starts eight ranks"
    else
        bad "kolorun cannot start eight ranks (lessons 1 to 8): $(head -n 1 <<<"$said")"
    fi
}

check_tools() {
    command -v gnuplot >/dev/null && good "gnuplot draws the lessons' plots" || bad "there is no gnuplot (plots of all lessons): install gnuplot-nox"
    command -v lldb-19 >/dev/null && good "the debugger is here" || warn "there is no lldb-19: JupyterLab's debugger will not work"
    [[ $(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0) -lt 2 ]] || warn "ptrace is closed to users here: JupyterLab's debugger will not work"
    [[ ! -e /dev/nvidia0 ]] && warn "there is no NVIDIA GPU: the lessons use virtual devices, and say so" || good "there is an NVIDIA GPU"
    command -v srun >/dev/null && good "SLURM is here" || warn "there is no SLURM: lesson 7 checks job scripts without running them"
}

# The quick form of a lesson runs every cell.
check_lesson() {
    local notebook=$1 folder said
    folder=$(mktemp -d)
    if said=$(cd "$top" && .venv/bin/python tests/labs/execute.py --quick --output "$folder" "$notebook" 2>&1); then
        good "$(basename "$notebook" .ipynb): every cell runs"
    else
        bad "$(basename "$notebook" .ipynb): $(grep -m 1 -E 'rror|failed' <<<"$said" | cut -c1-200)"
    fi
    rm -rf "$folder"
}

echo "This machine, for $count learners:"
check_build
((problems == 0)) || exit 1
check_machine
check_class
check_accounts
check_tools
check_data
check_ranks
if [[ -z ${FAST:-} ]]; then
    echo "The lessons, in their quick form (FAST=1 leaves them out):"
    for notebook in "$top"/Start_Here.ipynb "$top"/labs/*.ipynb; do check_lesson "${notebook#"$top"/}"; done
fi
((problems == 0)) && echo "Nothing here stops the class." || { echo "$problems problem$( ((problems == 1)) || echo s)."; exit 1; }
