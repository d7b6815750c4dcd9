#!/usr/bin/env bash
# Makes sure that PostgreSQL is there for the tests; quick when it is.
#
# A missing package is installed where that is possible without asking (root, or sudo without a password, on Debian or Ubuntu).
# Otherwise the script says what is missing and stops; the tests then skip.

set -euo pipefail

found() { compgen -G '/usr/lib/postgresql/*/lib/test_decoding.so' >/dev/null; }
as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }

found && exit 0
if ! command -v apt-get >/dev/null || ! { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }; then
    echo "PostgreSQL is not here: install the package postgresql" >&2
    exit 1
fi
as_root apt-get update >/dev/null 2>&1 || true
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql >/dev/null
found
