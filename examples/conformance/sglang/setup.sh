#!/bin/sh
# Build the environment that SGLang runs in: setup.sh [FOLDER]. About 3 GB; no GPU, no administrator.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
into=${1:-$here/../../../.venv-sglang}
python=${PYTHON:-python3.11}
torch=2.13.0+cpu

"$python" -m venv "$into"
pip="$into/bin/pip --quiet --disable-pip-version-check install --no-deps"
# The CPU build: from the configured indexes if they have it, else from its own.
$pip "torch==$torch" 2>/dev/null || $pip --index-url https://download.pytorch.org/whl/cpu "torch==$torch"
$pip -r "$here/requirements.txt"

# Mooncake's library wants libibverbs, also where there is no such device. Where the system has none and is a Debian, take the
# files out of its packages, beside the environment; without them the mover "mooncake" does not start, and the others do.
if ! "$into/bin/python" -c "import mooncake.engine" 2>/dev/null && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    mkdir -p "$into/debian"
    (cd "$into/debian" && apt-get -qq download libibverbs1 libnl-3-200 libnl-route-3-200 libnuma1 &&
        for each in *.deb; do dpkg-deb -x "$each" .; done && rm -f -- *.deb) || echo "without libibverbs: no mover mooncake"
fi
touch "$into/installed"
