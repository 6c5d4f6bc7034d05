#!/bin/sh
# Drives `warpsmith mcp` by the official Python client of the protocol, from PyPI in an environment of its own.
#
#   tests/mcp/run.sh WARPSMITH FOLDER
#
# WARPSMITH is the program, FOLDER a place for the environment (about 60 MB), which is kept between calls.
# Needs Python 3.10 or newer with its venv module, and cc. Fails where any of that is missing.
set -eu
warpsmith=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
here=$(dirname "$(realpath "$0")")

if ! cmp -s "$here/requirements.txt" "$folder/venv/requirements.txt"; then
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/python" -m pip install --disable-pip-version-check --quiet -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$folder/venv/requirements.txt"
fi
"$folder/venv/bin/python" "$here/client.py" "$warpsmith"
