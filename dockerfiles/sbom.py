#!/usr/bin/python3
"""The image's contents as an SPDX 2.3 document on stdout: Debian's packages, .venv's and .cuda's, with their versions."""
import datetime
import json
import re
import subprocess
import sys
import uuid
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]


def debian():
    rows = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n"],
                          capture_output=True, text=True, check=True).stdout
    for row in rows.splitlines():
        state, name, version, architecture = row.split("\t")
        if state.startswith("ii"):
            yield name, version, f"pkg:deb/debian/{name}@{version}?arch={architecture}&distro=debian-12"


def python():
    pip = TOP / ".venv/bin/pip"
    if not pip.exists():
        sys.exit("kolo: there is no .venv to list: run 'make setup' first.")
    # CUDA's libraries, where they are from PyPI, lie in a folder of their own.
    for place in [], ["--path", TOP / ".cuda"]:
        rows = subprocess.run([pip, "list", "--format=json", "--disable-pip-version-check", *place], capture_output=True, text=True, check=True)
        for row in json.loads(rows.stdout):
            name = re.sub(r"[-_.]+", "-", row["name"]).lower()
            yield name, row["version"], f"pkg:pypi/{name}@{row['version']}"


def package(kind, name, version, locator):
    return {"SPDXID": f"SPDXRef-{kind}-{re.sub('[^A-Za-z0-9.-]', '-', name)}", "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}]}


def kolo():
    version = re.search(r'KOLO_VERSION "(.*)"', (TOP / "ext/include/kolo.h").read_text())[1]
    return package("kolo", "kolo", version, f"pkg:generic/kolo@{version}") | {"licenseDeclared": "Apache-2.0"}


def main():
    packages = [kolo(), *(package("deb", *one) for one in debian()), *(package("pypi", *one) for one in python())]
    json.dump({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "kolo",
               "documentNamespace": f"https://spdx.org/spdxdocs/kolo-{uuid.uuid4()}",
               "creationInfo": {"created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                                "creators": ["Tool: kolo-sbom"]},
               "packages": packages,
               "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": one["SPDXID"]}
                                 for one in packages]}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
