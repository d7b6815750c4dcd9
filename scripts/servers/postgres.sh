#!/usr/bin/env bash
# Makes sure that PostgreSQL with wal2json is there for the tests; quick when it is.
#
# Missing packages are installed where that is possible without asking (root, or sudo without a password, on Debian or Ubuntu).
# Otherwise the script says what is missing and stops; the tests then skip.

set -euo pipefail

found() { compgen -G '/usr/lib/postgresql/*/lib/wal2json.so' >/dev/null; }
as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }

found && exit 0
if ! command -v apt-get >/dev/null || ! { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }; then
    echo "PostgreSQL with wal2json is not here: install postgresql-15 and postgresql-15-wal2json" >&2
    exit 1
fi
as_root apt-get update >/dev/null 2>&1 || true
version=$(apt-cache search --names-only '^postgresql-[0-9]+-wal2json$' | sed 's/^postgresql-\([0-9]*\)-.*/\1/' | sort -n | tail -1)
[ -n "$version" ] || { echo "there is no package with wal2json" >&2; exit 1; }
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    "postgresql-$version" "postgresql-$version-wal2json" >/dev/null
found
