"""What libkolo.so exports as its interface is what the headers declare."""
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()


def exported():
    table = subprocess.run(["nm", "-D", "--defined-only", BUILD / "lib/libkolo.so"], check=True, capture_output=True, text=True)
    symbols = [line.split()[-1].split("@@") for line in table.stdout.splitlines() if line.split()[1] != "A"]
    return {name: version for name, version in (symbol if len(symbol) == 2 else (symbol[0], "") for symbol in symbols)}


def declared():
    text = subprocess.run(["gcc", "-std=gnu17", "-E", "-P", ROOT / "ext/include/kolo.h"], check=True, capture_output=True, text=True).stdout
    functions = set(re.findall(r"\b(kolo_\w+)\([^;{}]*\);", text)) - set(re.findall(r"static inline \w+ (kolo_\w+)\(", text))
    lists = re.findall(r"extern const kolo_\w+_kind ([^;]*);", text)
    return functions | {name.strip() for names in lists for name in names.split(",")}


def test_the_interface_is_what_headers_declare():
    symbols = exported()
    interface = {name for name, version in symbols.items() if version == "KOLO_0"}
    assert set(symbols.values()) == {"KOLO_0", "KOLO_PRIVATE_0"}
    assert interface == declared() & interface, sorted(interface - declared())
    assert declared() <= interface, sorted(declared() - interface)


def test_a_program_may_use_names_of_the_library_s_own(tmp_path):
    """kolo_phrase() writes the library's sentences, and no header of the interface declares it."""
    assert exported()["kolo_phrase"] == "KOLO_PRIVATE_0"
    source = tmp_path / "program.c"
    source.write_text("""
#include <kolo.h>
#include <stdio.h>
const char *kolo_phrase(const char *format, ...) { return format; }
int main(void)
{
    kolo_sequential(kolo_input(4), kolo_conv2d(2));
    return puts(kolo_last_error().text) < 0;
}
""")
    environment = os.environ | {"PKG_CONFIG_PATH": str(BUILD / "lib/pkgconfig")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "kolo"], env=environment, check=True, capture_output=True,
                           text=True).stdout.split()  # fmt: skip
    subprocess.run(["gcc", source, "-o", tmp_path / "program", *flags, f"-Wl,-rpath,{BUILD}/lib"], check=True)
    told = subprocess.run([tmp_path / "program"], check=True, capture_output=True, text=True).stdout
    assert "layer 1 (conv2d): " in told, told
