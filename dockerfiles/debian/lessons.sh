#!/bin/sh
# Copies the lessons to a folder of the learner's own: kolo-lessons [FOLDER], default ~/kolo-lessons.
set -eu
case "${1:-}" in
-h | --help)
    echo "Usage: kolo-lessons [FOLDER]"
    echo "Copies Kolo's notebooks and the sources of their programs to FOLDER (default: ~/kolo-lessons)."
    exit 0
    ;;
-*)
    echo "kolo-lessons: there is no option '$1': kolo-lessons [FOLDER]" >&2
    exit 2
    ;;
esac
if [ $# -gt 1 ]; then
    echo "kolo-lessons: wanted one folder, got $#: kolo-lessons [FOLDER]" >&2
    exit 2
fi
folder=${1:-$HOME/kolo-lessons}
if [ -e "$folder" ]; then
    echo "kolo-lessons: $folder exists already: choose another folder, so that nothing of yours is written over" >&2
    exit 1
fi
# A copy that was cut short never bears the folder's name.
part=$folder.part.$$
trap 'rm -rf "$part"' EXIT
trap 'exit 130' INT TERM HUP
if ! { mkdir -p "$part" && cp -r /usr/share/kolo/. "$part/" && mv -T "$part" "$folder"; }; then
    echo "kolo-lessons: $folder could not be written" >&2
    exit 1
fi
trap - EXIT
echo "The lessons are in $folder. Open Start_Here.ipynb in JupyterLab, with the kernel C (Kolo)."
