"""The images, built from a clean clone by docker, podman or buildah, and used without a network as learners use them."""
import json
import os
import re
import shutil
import tempfile

import pytest

from workshop import ROOT, run

ENGINE = ROOT / "tests/dockerfiles/engine.sh"
# The image's own user, that of `--user "$(id -u):$(id -g)"` on most machines, and one that no file of the image knows.
USERS = {"own": "", "arbitrary": "23456:23456"}


def why_not():
    if os.environ.get("KOLO_SLOW") != "1":
        return "KOLO_SLOW=1 builds images, which takes half an hour"
    found = run([ENGINE, "name"])
    return found.returncode != 0 and found.stderr.strip()


pytestmark = [pytest.mark.long("images are built"), pytest.mark.timeout(7200), pytest.mark.skipif(bool(why_not()), reason=str(why_not()))]


def engine(*words, limit=600):
    done = run([ENGINE, *words], limit=limit)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def store():
    """Where buildah keeps its layers: several GB, which go with the tests, failed ones too. A STORE of one's own is kept."""
    if "STORE" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="kolo-images-", dir="/var/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORE", f"{folder}/store")
        yield
        engine("clear")


@pytest.fixture(scope="module")
def images(store, tmp_path_factory):
    """The cpu image and the class image, built from what git knows and nothing else, so that nothing that was built here gets
    into them. KOLO_IMAGES names two that are there already, "kolo,kolo-class", or "kolo-gpu,kolo-gpu-class"."""
    if given := os.environ.get("KOLO_IMAGES"):
        yield given.split(",")
        return
    clone = tmp_path_factory.mktemp("clone") / "kolo"
    assert run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", clone]).returncode == 0
    engine("build", "kolo-test", clone / "dockerfiles/cpu.Dockerfile", clone, limit=3600)
    engine("build", "kolo-test-class", clone / "dockerfiles/class.Dockerfile", clone, "BASE=kolo-test", "DATA=none")
    shutil.rmtree(clone)
    yield ["kolo-test", "kolo-test-class"]
    engine("remove", "kolo-test-class", "kolo-test")


@pytest.fixture(params=[0, 1], ids=["cpu", "class"])
def image(images, request):
    return images[request.param]


@pytest.fixture(params=USERS.values(), ids=USERS.keys())
def inside(image, request):
    """Runs a command in the image, as that user and without a network; its stdout."""
    return lambda *words: engine("run", image, request.param, *words)


def test_the_user_is_not_root(image):
    settings = json.loads(engine("inspect", image))
    assert settings["User"] == "1000" and settings["Cmd"] == ["dockerfiles/lab.sh"] and "8888/tcp" in settings["ExposedPorts"]
    assert engine("run", image, "", "id", "-u").strip() == "1000"


def test_the_class_has_its_volume_and_tells_its_health(images):
    settings = json.loads(engine("inspect", images[1]))
    assert list(settings["Volumes"]) == ["/kolo/labs"] and settings["Healthcheck"]["Test"][0] == "CMD"
    assert "KOLO_DATA" not in str(settings["Env"]) and engine("run", images[1], "", "readlink", "/home/learner/.cache/kolo").strip() == "/data"


def test_there_is_no_network(inside):
    interfaces = re.findall(r"^ *(\S+):", inside("cat", "/proc/self/net/dev"), re.MULTILINE)
    assert interfaces == ["lo"]


def test_one_device(inside):
    assert "1/1" in inside("cnn_mnist", "--epochs", "1", "--steps-per-epoch", "1", "--batch-size", "64")


def test_eight_ranks(inside):
    shown = inside("kolorun", "-np", "8", "cnn_mnist", "--epochs", "1", "--steps-per-epoch", "2", "--batch-size", "64")
    assert "2/2" in shown


def test_a_notebook(inside):
    shown = inside("python", "tests/dockerfiles/installed_cells.py", "int twice(int x) { return 2 * x; }\ntwice(21)", "!id -u")
    assert shown.split()[0] == "42" and shown.split()[1] != "0"


def test_a_notebook_of_the_course(inside):
    shown = inside("bash", "-c", "KOLO_LAB_QUICK=1 jupyter execute --output=mine Start_Here.ipynb 2>&1 && grep -c output_type mine.ipynb")
    assert int(shown.split()[-1]) > 5, shown


def test_the_lab_and_its_token(inside):
    answers = json.loads(inside("python", "tests/dockerfiles/lab_in_image.py", "dockerfiles/lab.sh"))
    assert answers == {"url": "http://127.0.0.1:8888/lab/tree/Start_Here.ipynb?token=", "page": 200, "kernel": "kolo", "health": 200,
                       "without": 403, "wrong": 403}


def test_the_lessons_are_the_learners_to_write_and_the_environment_is_not(inside):
    assert inside("bash", "-c", "echo mine >labs/mine && cat labs/mine && ! touch .venv/mine 2>/dev/null && ! touch /etc/mine 2>/dev/null"
                  " && make build >/dev/null && echo built").split() == ["mine", "built"]


# Counted in the image, since buildah loses the end of what is longer than a pipe holds.
LISTED = """
import json, subprocess
packages = json.load(open("sbom.spdx.json"))["packages"]
places = [one["externalRefs"][0]["referenceLocator"] for one in packages]
print(packages[0]["name"], sum(place.startswith("pkg:deb/") for place in places), subprocess.getoutput("dpkg-query -W | wc -l"))
print(*[place for place in places if place.startswith("pkg:pypi/")])
"""


def test_what_is_in_the_image_is_listed(images):
    first, pypi = engine("run", images[0], "", "python", "-c", LISTED).splitlines()
    name, listed, installed = first.split()
    assert name == "kolo" and listed == installed and int(listed) > 100
    pinned = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "dockerfiles/requirements.txt").read_text(), re.MULTILINE)
    wanted = {f"pkg:pypi/{re.sub('[-_.]+', '-', name).lower()}@{version}" for name, version in pinned}
    assert wanted and wanted <= set(pypi.split())


def test_tests_alone_need_a_browser(images):
    """What is for tests alone is not in the image."""
    assert engine("run", images[0], "", "bash", "-c", "command -v chromium clang-tidy-19 || echo none").split() == ["none"]


def test_the_size_is_what_the_documents_say(images):
    kind = engine("run", images[0], "", "bash", "-c", "[ -d .cuda ] && echo gpu || echo cpu").strip()
    said = re.search(rf"{kind} image is ([\d.]+) GB", (ROOT / "dockerfiles/CLASS.md").read_text())
    assert float(said[1]) == pytest.approx(int(engine("size", images[0])) / 1e9, rel=0.15)
