"""What the tests of set-up, build and runner share: where things are, and running a command."""
import os
import re
import subprocess
from pathlib import Path

import patience

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build"))


def run(command, limit=120, **options):
    """The finished command: returncode, stdout, stderr."""
    return patience.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                        timeout=limit, **options)


def make(*arguments):
    """make in the checkout, on this build, free of the make that runs the tests."""
    inherited = {name: value for name, value in os.environ.items() if not re.match(r"MAKE|MFLAGS", name)}
    return run(["make", f"BUILD={BUILD}", *arguments], cwd=ROOT, env=inherited)


def compile_program(source, program, prefix):
    """Compiles as a stranger would, with pkg-config on the Kolo under prefix."""
    flags = run(["pkg-config", "--cflags", "--libs", "kolo"],
                env={**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"})
    assert flags.returncode == 0, flags.stderr
    return run(["gcc", source, "-o", program, *flags.stdout.split()])
