#!/bin/bash
# A command in a bare Debian 12 of its own, which debootstrap made: bare_debian.sh FOLDER COMMAND [ARGUMENT…]
# The folder is made where there is none. The command runs as root of that Debian, without a terminal, with this machine's
# network, and its settings and certificates for packages from Debian and PyPI. Root's only.
set -euo pipefail
(($# > 1)) || { echo "bare_debian.sh wants a folder and a command" >&2; exit 2; }
folder=$1
shift
if [[ ! -e $folder/etc/debian_version ]]; then
    debootstrap --variant=minbase --include=ca-certificates bookworm "$folder" http://deb.debian.org/debian >"$folder.log" 2>&1
fi
cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/"
cp -L /etc/resolv.conf "$folder/etc/" 2>/dev/null || true
settings=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root)
while IFS= read -r -d '' one; do
    [[ ! $one =~ ^(PIP_|SSL_|REQUESTS_|http_proxy|https_proxy|HTTP_PROXY|HTTPS_PROXY|no_proxy) ]] || settings+=("$one")
done < <(env -0)
# The mounts are this command's alone, and go with it.
exec unshare --mount --pid --fork --kill-child bash -c '
    mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp" || exit 1
    folder=$1; shift
    exec chroot "$folder" env -i "$@"' bare "$folder" "${settings[@]}" "$@" </dev/null
