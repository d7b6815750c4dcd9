#!/usr/bin/env bash
# Pins every package, with hashes, for all supported versions of Python. Needs uv.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v uv >/dev/null || { echo "error: uv is needed; 'pip install uv' brings it" >&2; exit 1; }

# The locks say what to install, never from where: that is each machine's own setting.
pin() {
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
        --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" "$@"
}

pin pyproject.toml --all-extras --output-file requirements.lock
printf 'pip\nsetuptools>=77\n' | pin - --output-file requirements-build.lock
