#!/bin/bash
# What `make` needs around the build. Every failure is one sentence that says what to do.
#   setup.sh check    the packages that a build needs are here, and BUILD can be written
#   setup.sh packages install what packages.txt lists to build, to run and to test, and is missing
#   setup.sh venv     make .venv from requirements.txt, unless the one there was made from it
#   setup.sh cuda     make .cuda from cuda.txt: CUDA's compiler and libraries, for machines that have none
#   setup.sh hub      make .hub: JupyterHub for a class, from requirements.txt and hub/requirements.txt
#   setup.sh deb FOLDER   build Debian packages in FOLDER
#   setup.sh kernelspec BIN FOLDER   write FOLDER/kolo, the kernelspec of BIN/kolo-kernel
set -euo pipefail
cd "$(dirname "$0")/.."
lists=dockerfiles

fail() { echo "kolo: $*" >&2; exit 1; }

# The packages under the heading "# $1" of packages.txt, or of the list $2.
listed() {
    awk -v part="# $1" '/^#/ { inside = $0 == part } !/^#/ && NF && inside { print $1 }' "$lists/${2:-packages.txt}"
}

# Those of the given packages that dpkg does not know as installed.
missing() {
    comm -23 <(printf '%s\n' "$@" | sort -u) \
        <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' | sort -u)
}

check() {
    local absent folder=${BUILD:-build}
    while [[ ! -e $folder ]]; do folder=$(dirname "$folder"); done
    [[ -w $folder ]] ||
        fail "$(realpath "$folder") cannot be written by $(id -un): copy Kolo to a folder of your own and run make there."
    command -v dpkg-query >/dev/null || return 0   # not a Debian: the compiler will say what it misses
    mapfile -t absent < <(missing $(listed 'to build'))
    ((${#absent[@]} == 0)) || fail "the build needs ${absent[*]}: run 'make setup', which installs what is missing."
}

# KOLO_PACKAGES says which parts of the list, with a comma between two: an image leaves out what is for tests alone.
packages() {
    local part parts
    IFS=, read -r -a parts <<<"${KOLO_PACKAGES:-to build,to run,to test and to develop}"
    for part in "${parts[@]}"; do
        [[ -n $(listed "$part") ]] || fail "KOLO_PACKAGES names parts of $lists/packages.txt ('to build,to run'), got '$part'."
    done
    install_missing "${parts[@]}"
}

# The packages of these parts of the list that are missing.
install_missing() {
    command -v dpkg-query >/dev/null ||
        fail "setup knows Debian's packages only: install what $lists/packages.txt lists, then run 'make build'."
    local part absent sudo=()
    mapfile -t absent < <(missing $(for part; do listed "$part"; done))
    ((${#absent[@]})) || return 0
    if ((EUID)); then
        sudo=(sudo)
        { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; } || fail \
            "packages are missing and $(id -un) may not install them: have root run" \
            "'apt-get install --no-install-recommends ${absent[*]}', then run this again."
    fi
    echo "Installing ${#absent[@]} Debian packages; the first time this takes some minutes."
    install_packages "${absent[@]}"
}

install_packages() {
    local log reason apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120)
    log=$(mktemp)
    if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
        reason=$(sed -n 's/^E: //p' "$log" | head -n 1)
        rm "$log"
        fail "apt-get could not install the packages ($reason):" \
            "check the network and the sources that apt reads, then run this again."
    fi
    rm "$log"
}

# .venv/made-from is written last: an environment without it is half made.
venv() {
    local wanted
    wanted=$(cat $lists/requirements.txt; echo "# in $PWD")
    if [[ $(cat .venv/made-from 2>/dev/null) != "$wanted" ]]; then
        [[ -x /usr/bin/python3 ]] || fail "/usr/bin/python3 is missing: install Debian's python3-venv."
        [[ -w . ]] || fail "$PWD cannot be written by $(id -un): copy Kolo to a folder of your own and run make there."
        echo "Making .venv with JupyterLab; the first time this takes a minute."
        make_venv
        echo "$wanted" >.venv/made-from
    fi
    lab_settings .venv
}

# What JupyterLab of the environment $1 does unless a learner sets it otherwise.
lab_settings() {
    cmp -s $lists/jupyterlab.json "$1/share/jupyter/lab/settings/overrides.json" ||
        install -D -m 644 $lists/jupyterlab.json "$1/share/jupyter/lab/settings/overrides.json"
}

# The old environment, if any, comes back when the new one cannot be made.
make_venv() {
    local log reason
    log=$(mktemp)
    rm -rf .venv.old
    [[ ! -e .venv ]] || mv .venv .venv.old
    trap 'put_back "$log"' EXIT
    trap 'exit 130' INT TERM HUP
    if ! { /usr/bin/python3 -m venv .venv && .venv/bin/pip install --no-input -r $lists/requirements.txt; } \
        >"$log" 2>&1 </dev/null; then
        reason=$(grep -E -o -m 1 'ERROR: .*' "$log" || tail -n 1 "$log")
        ! grep -E -q 'NewConnectionError|NameResolutionError|ConnectTimeout' "$log" || reason="the network did not answer"
        fail "pip could not fill .venv ($reason):" \
            "check the network, the disk and pip's settings, then run this again."
    fi
    trap - EXIT INT TERM HUP
    rm -rf .venv.old "$log"
}

put_back() {
    rm -rf .venv "$1"
    [[ ! -e .venv.old ]] || mv .venv.old .venv
}

# The packages of cuda.txt for CUDA 12 or 13. A toolkit that is there already, in KOLO_TOOLKIT, is not fetched; CUDNN and
# NCCL are versions that are wanted instead of the list's.
cuda_packages() {
    local major=${CUDA:-13} part
    [[ $major == 12 || $major == 13 ]] || fail "CUDA is 12 or 13, got '$major'."
    if [[ ! -x ${KOLO_TOOLKIT:-}/bin/nvcc ]]; then
        [[ $major == 13 ]] || fail "PyPI has no nvcc of CUDA 12: KOLO_TOOLKIT names a folder that has bin/nvcc (for an image," \
            "--build-arg TOOLKIT=nvidia/cuda:12.9.1-devel-ubuntu22.04), got '${KOLO_TOOLKIT:-}'."
        part=$(listed "toolkit of CUDA $major" cuda.txt)
    elif ! "$KOLO_TOOLKIT/bin/nvcc" --version | grep -q "release $major\."; then
        fail "$KOLO_TOOLKIT is not CUDA $major: $("$KOLO_TOOLKIT/bin/nvcc" --version | grep -o 'release [0-9.]*')."
    fi
    printf '%s\n' ${part:-} $(listed "libraries for CUDA $major" cuda.txt) |
        sed "${CUDNN:+s/^\(nvidia-cudnn-cu1[23]\)==.*/\1==$CUDNN/;}${NCCL:+s/^\(nvidia-nccl-cu1[23]\)==.*/\1==$NCCL/}"
}

# .cuda/made-from is written last, as in .venv. The wheels name libraries by their versions alone; a linker wants more.
cuda() {
    local log library wanted
    [[ -x .venv/bin/pip ]] || fail "there is no .venv yet: run 'make setup' first, which makes it."
    wanted=$(cuda_packages)
    [[ $(cat .cuda/made-from 2>/dev/null) != "$wanted" ]] || return 0
    echo "Making .cuda with CUDA's compiler and libraries, 2 GB; this takes some minutes."
    rm -rf .cuda
    log=$(mktemp)
    if ! .venv/bin/pip install --no-input --no-cache-dir --no-deps --target .cuda $wanted >"$log" 2>&1 </dev/null; then
        fail "pip could not fill .cuda ($(grep -E -o -m 1 'ERROR: .*' "$log" || tail -n 1 "$log")):" \
            "check the network, the disk and pip's settings, then run this again."
    fi
    rm "$log"
    for library in .cuda/nvidia/*/lib/lib*.so.*; do ln -sf "$(basename "$library")" "${library%%.so.*}.so"; done
    if [[ -x .cuda/nvidia/cu13/bin/nvcc ]]; then ln -s nvidia/cu13 .cuda/toolkit; else ln -s "$KOLO_TOOLKIT" .cuda/toolkit; fi
    echo "$wanted" >.cuda/made-from
}

# .hub/made-from is written last, as in .venv. JupyterHub starts JupyterLab from the same environment.
hub() {
    local log wanted
    wanted=$(cat $lists/requirements.txt $lists/hub/requirements.txt)
    [[ $(cat .hub/made-from 2>/dev/null) != "$wanted" ]] || { lab_settings .hub; return; }
    echo "Making .hub with JupyterHub; this takes a minute."
    rm -rf .hub
    log=$(mktemp)
    if ! { /usr/bin/python3 -m venv .hub &&
        .hub/bin/pip install --no-input -r $lists/requirements.txt -r $lists/hub/requirements.txt; } >"$log" 2>&1 </dev/null; then
        rm -rf .hub
        fail "pip could not fill .hub ($(grep -E -o -m 1 'ERROR: .*' "$log" || tail -n 1 "$log")):" \
            "check the network, the disk and pip's settings, then run this again."
    fi
    rm "$log"
    lab_settings .hub
    echo "$wanted" >.hub/made-from
}

# Builds Debian packages of the files that git knows, as they are here.
deb() {
    local folder=$1 log tree
    install_missing 'to build' 'to package'
    git rev-parse --git-dir >/dev/null 2>&1 || fail "make deb packages what git knows, and $PWD is no checkout: clone Kolo with git."
    rm -rf "$folder" && mkdir -p "$folder"
    tree=$folder/kolo log=$folder/build.log
    mkdir "$tree"
    git ls-files -z | xargs -0 cp --parents -t "$tree"
    cp -r dockerfiles/debian "$tree/debian"
    echo "Building the packages; this takes some minutes. The log is $log."
    (cd "$tree" && env -u BUILD -u CFLAGS -u MAKELEVEL -u MAKEFLAGS -u MAKEOVERRIDES dpkg-buildpackage -us -uc -b) >"$log" 2>&1 </dev/null ||
        fail "the packages could not be built ($(grep -m 1 -E 'error: |Error [0-9]' "$log" || tail -n 1 "$log")): read $log."
    rm -rf "$tree"
    ls "$folder"/*.deb
}

# Leaves what is there alone when it is the same: in a container .venv is read-only to the user.
kernelspec() {
    local new
    new=$(mktemp -d)
    cp kernel/kernelspec/* "$new"
    /usr/bin/python3 - "$1/kolo-kernel" kernel/kernelspec/kernel.json >"$new/kernel.json" <<'PYTHON'
import json, sys
spec = json.load(open(sys.argv[2]))
spec["argv"][0] = sys.argv[1]
print(json.dumps(spec, indent=1))
PYTHON
    if ! diff -r "$new" "$2/kolo" >/dev/null 2>&1; then
        rm -rf "$2/kolo"
        install -D -m 644 -t "$2/kolo" "$new"/*
    fi
    rm -rf "$new"
}

command=${1:-}
case $command in
check | packages | venv | cuda | hub | deb | kernelspec) shift; "$command" "$@" ;;
*) fail "setup.sh takes check, packages, venv, cuda, hub, deb or kernelspec" ;;
esac
