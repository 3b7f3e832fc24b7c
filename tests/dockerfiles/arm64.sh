#!/bin/bash
# Kolo for linux/arm64 on another machine: a Debian 12 of that kind in FOLDER, a build by a cross compiler, and its programs
# under qemu's emulation. Root's only; wants debootstrap, qemu-user-static and g++-aarch64-linux-gnu.
#   arm64.sh FOLDER debian                the Debian with what Kolo is built from and runs on; takes half an hour
#   arm64.sh FOLDER build [TARGET…]       make, here, into FOLDER/kolo/build; default: build
#   arm64.sh FOLDER run COMMAND [WORD…]   in that Debian, in /kolo
#   arm64.sh FOLDER kernel FILE           Jupyter's kernel, with this connection file
set -euo pipefail
(($# > 1)) || { echo "arm64.sh wants a folder and debian, build, run or kernel" >&2; exit 2; }
folder=$(realpath -m "$1") top=$(realpath "$(dirname "$0")/../..")
shift
triplet=aarch64-linux-gnu

# The kernel starts qemu for a program of arm64. Debian registers it at boot; where nothing boots, we do.
register() {
    local files=/proc/sys/fs/binfmt_misc
    [[ -e $files/register ]] || mount -t binfmt_misc binfmt_misc "$files"
    [[ -e $files/qemu-aarch64 ]] || printf '%s' ':qemu-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:OCF' >"$files/register"
}

inside() {
    register
    # The mounts are this command's alone, and go with it.
    exec unshare --mount --pid --fork --kill-child bash -c '
        mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys" || exit 1
        mkdir -p "$1$2" && mount --bind "$2" "$1$2" || exit 1 # headers in the build are links to the sources
        folder=$1; shift 2
        exec chroot "$folder" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root \
            KOLO_BUILD=/kolo/build LD_LIBRARY_PATH=/kolo/build/lib OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@"' arm64 "$folder" "$top" "$@"
}

debian() {
    local list
    register
    [[ -e $folder/etc/debian_version ]] ||
        debootstrap --arch arm64 --variant=minbase --include=ca-certificates bookworm "$folder" http://deb.debian.org/debian
    cp -L /etc/resolv.conf "$folder/etc/"
    echo force-unsafe-io >"$folder/etc/dpkg/dpkg.cfg.d/unsafe"
    list=$(awk '/^#/ { inside = /to build/ } !/^#/ && NF && inside' "$top/dockerfiles/packages.txt" | grep -v -x build-essential)
    "$0" "$folder" run sh -c "apt-get -qq update && apt-get -qq install -y --no-install-recommends clang-19 openmpi-bin g++ $(tr '\n' ' ' <<<"$list")"
}

build() {
    # Debian's alternatives are absolute links, which lead out of the folder: hence Open MPI's own folders.
    local usr=$folder/usr
    mkdir -p "$folder/kolo"
    PKG_CONFIG_LIBDIR=$usr/lib/$triplet/pkgconfig:$usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$folder \
        make -C "$top" BUILD="$folder/kolo/build" CUDA_HOME=/none CC="$triplet-gcc --sysroot=$folder" CXX="$triplet-g++ --sysroot=$folder" \
        LLVM="$usr/lib/llvm-19" CFLAGS="-O2 -g -L$usr/lib/$triplet/openmpi/lib" "$@"
    # There the folder is the root.
    sed -i "s|$folder/|/|" "$folder/kolo/build/lib/pkgconfig/kolo.pc"
}

command=$1
shift
case $command in
debian | build) "$command" "$@" ;;
run) inside sh -c 'cd /kolo && exec "$@"' run "$@" ;;
kernel)
    cp "$1" "$folder/tmp/"
    inside /kolo/build/bin/kolo-kernel -f "/tmp/$(basename "$1")"
    ;;
*) echo "arm64.sh takes debian, build, run or kernel" >&2; exit 2 ;;
esac
