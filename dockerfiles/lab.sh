#!/bin/bash
# JupyterLab at Start_Here.ipynb, with a token; prints the URL once the server listens. `make lab` and the container
# call it. Reads IP, PORT and NO_BROWSER; and KOLO_LAB_ROOT: the folder of the notebooks, if it is not Kolo's own.
set -euo pipefail
cd "$(dirname "$0")/.."
ip=${IP:-127.0.0.1} port=${PORT:-8888} root=${KOLO_LAB_ROOT:-$PWD}

fail() { echo "kolo: $*" >&2; exit 1; }

[[ $port =~ ^[0-9]{1,5}$ ]] && ((10#$port >= 1 && 10#$port <= 65535)) || fail "PORT is a number from 1 to 65535, got '$port'."
[[ -x .venv/bin/jupyter ]] || fail "there is no .venv yet: run 'make lab', which makes it."

# Whether the port is free, and if not, one that is.
advice=$(.venv/bin/python - "$ip" "$port" <<'PYTHON'
import errno, socket, sys
def trial(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((sys.argv[1], port))
        except OSError as e:
            return e
wanted = int(sys.argv[2])
error = trial(wanted)
if error and error.errno == errno.EADDRINUSE:
    free = next(p for p in range(wanted + 1 if wanted < 65000 else 8888, 65536) if not trial(p))
    print(f"port {wanted} is in use by another program: run 'make lab PORT={free}'.")
elif error:
    print(f"port {wanted} of {sys.argv[1]} cannot be opened ({error.strerror}): choose another with 'make lab PORT=8888'.")
PYTHON
)
[[ -z $advice ]] || fail "$advice"

export JUPYTER_CONFIG_PATH=$PWD/dockerfiles/jupyter${JUPYTER_CONFIG_PATH:+:$JUPYTER_CONFIG_PATH}
# Lessons have eight devices, on fewer GPUs too.
export KOLO_GPU_DEVICES=${KOLO_GPU_DEVICES:-8}
# In the environment, not on the command line, which every user of the machine can read.
export JUPYTER_TOKEN=${JUPYTER_TOKEN:-$(.venv/bin/python -c 'import secrets; print(secrets.token_hex(24))')}
host=$ip
[[ $ip != 0.0.0.0 ]] || host=127.0.0.1
options=(--ip="$ip" --port="$port" --ServerApp.port_retries=0 --ServerApp.root_dir="$root"
    --MultiKernelManager.default_kernel_name=kolo --ServerApp.log_level=WARN --LabApp.log_level=WARN)
((EUID)) || options+=(--allow-root)
[[ -z ${NO_BROWSER:-} && -n ${DISPLAY:-}${WAYLAND_DISPLAY:-} ]] || options+=(--no-browser)

# Waits beside the server, for as long as that runs, and is no child of it: JupyterLab does not look after children that
# it has not started.
server=$$
announce() {
    local state
    until (exec 3<>"/dev/tcp/$host/$port") 2>/dev/null; do
        { read -r _ _ state _ <"/proc/$server/stat"; } 2>/dev/null && [[ $state != Z ]] || return 0
        sleep 0.1
    done
    echo "
JupyterLab is running. Open
    http://$host:$port/lab/tree/Start_Here.ipynb?token=$JUPYTER_TOKEN
Ctrl-C ends it."
}
(announce &)
# Without a terminal to ask in, Jupyter takes the first Ctrl-C for an answer.
exec .venv/bin/jupyter lab "${options[@]}" "$root/Start_Here.ipynb" </dev/null
