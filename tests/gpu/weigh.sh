#!/bin/bash
# weigh.sh FOLDER: how many MiB go to a machine with a GPU: FOLDER, and the tracked files of this tree, which travel with
# it. Fails above 55: some ways to such a machine take 64, and the files' names and the archive need some of that.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1 most=55
tracked=$(git ls-files -z | xargs -0 -r stat -c %s -- 2>/dev/null | awk '{ sum += $1 } END { printf "%.0f", sum }')
[[ $tracked -gt 0 ]] || { echo "kolo: weigh.sh wants a git work tree, to count the tracked files that travel, got none" >&2; exit 1; }
carried=$(du -sb "$folder" | cut -f 1)
mib() { echo $((($1 + (1 << 20) - 1) >> 20)); }
all=$(mib $((carried + tracked)))
if ((all > most)); then
    echo "kolo: $folder ($(mib "$carried") MiB) and the tracked files ($(mib "$tracked") MiB) take $all MiB, more than the $most that may travel: strip it, or leave programs out." >&2
    exit 1
fi
echo "$all MiB with the tracked files"
