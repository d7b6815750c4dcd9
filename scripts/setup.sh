#!/usr/bin/env bash
# Makes sure that what Tidegate needs is there; quick when it is.
#
#   scripts/setup.sh venv    .venv holds exactly the pinned packages and this project
#   scripts/setup.sh java    prints the home of a Java that Spark can use
#
# Missing system packages are installed where that is possible without asking (root, or sudo
# without a password, on Debian or Ubuntu). Otherwise the script says what to do and stops.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The versions for which every package of requirements.lock has a wheel.
PYTHONS=(python3.13 python3.12 python3.11 python3 python3.14)
PYTHON_RANGE='(3, 11) <= sys.version_info[:2] <= (3, 14)'

JAVA_MINIMUM=17
# Where 17 is no longer packaged, 21 is.
JAVA_PACKAGES=(openjdk-17-jre-headless openjdk-21-jre-headless)

say() { printf '%s\n' "$*" >&2; }

stop() {
    say "error: $1"
    shift
    for line in "$@"; do say "  $line"; done
    exit 1
}

# --- system packages ---------------------------------------------------------------------------

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null
}

# apt_install PACKAGE...: installs the first of the packages that is available.
apt_install() {
    local log package
    log=$(mktemp)
    say "Looking for system packages ..."
    as_root apt-get update >"$log" 2>&1 || say "warning: apt-get update failed; going on with the known lists"
    for package in "$@"; do
        [[ $(LC_ALL=C apt-cache policy "$package" 2>/dev/null) =~ Candidate:\ [0-9] ]] || continue
        say "Installing $package ..."
        if as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends "$package" >"$log" 2>&1; then
            rm -f "$log"
            return 0
        fi
        tail -n 20 "$log" >&2
    done
    rm -f "$log"
    return 1
}

# --- Python ------------------------------------------------------------------------------------

# A name on PATH may be a launcher that starts nothing, so each candidate is run, not just looked up.
suitable_python() {
    "$1" -c "import sys; sys.exit(not ($PYTHON_RANGE))" >/dev/null 2>&1
}

can_make_venv() {
    "$1" -c 'import ensurepip, venv; ensurepip.version()' >/dev/null 2>&1
}

# Prints the first suitable Python that can make a virtual environment, installing that ability if
# there is a suitable one without it.
find_python() {
    local candidate package bare=
    for candidate in "${PYTHONS[@]}"; do
        suitable_python "$candidate" || continue
        if can_make_venv "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
        bare=${bare:-$candidate}
    done
    [ -n "$bare" ] || stop "Python 3.11 to 3.14 is needed, and none is on PATH." \
        "Debian, Ubuntu: sudo apt-get install python3 python3-venv"

    package=$("$bare" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if may_install && apt_install "$package" python3-venv && can_make_venv "$bare"; then
        printf '%s\n' "$bare"
        return
    fi
    stop "$bare cannot make virtual environments." "Debian, Ubuntu: sudo apt-get install $package"
}

# What .venv was made from. Contents, not dates, so that switching branches costs nothing; the
# place, because a virtual environment does not survive being moved.
fingerprint() {
    { pwd && cat requirements-build.lock requirements.lock pyproject.toml scripts/setup.sh; } | sha256sum
}

venv_is_current() {
    [ "$(cat .venv/made-from 2>/dev/null)" = "$(fingerprint)" ] && .venv/bin/python -c '' 2>/dev/null
}

make_venv() {
    venv_is_current && return
    # Two makes at once: one installs, the other waits and finds the work done.
    exec 9<requirements.lock
    flock 9
    venv_is_current && return

    local python
    rm -f .venv/made-from
    if ! { suitable_python .venv/bin/python && .venv/bin/python -m pip --version; } >/dev/null 2>&1; then
        python=$(find_python)
        say "Creating .venv with $("$python" --version) ..."
        rm -rf .venv
        "$python" -m venv .venv
    fi
    say "Installing the pinned packages into .venv (a few minutes the first time) ..."
    pip_install --require-hashes -r requirements-build.lock
    # No build isolation: what builds the packages is pinned as well.
    pip_install --require-hashes --no-build-isolation -r requirements.lock
    pip_install --no-deps --no-build-isolation --editable .
    fingerprint >.venv/made-from
}

# Warnings of the build tools are about their own internals, and would bury the errors.
pip_install() {
    PYTHONWARNINGS=ignore .venv/bin/python -m pip install --quiet --disable-pip-version-check --root-user-action=ignore "$@"
}

# --- Java --------------------------------------------------------------------------------------

# Spark loads jdk.incubator.vector, which stripped-down Java runtimes lack.
suitable_java() {
    local version
    version=$("$1/bin/java" --add-modules jdk.incubator.vector -version 2>&1) || return 1
    version=$(sed -n 's/.* version "\([0-9]*\).*/\1/p' <<<"$version")
    [ "${version:-0}" -ge "$JAVA_MINIMUM" ]
}

# Prints the first home of a suitable Java: JAVA_HOME, then PATH, then where Debian puts them.
find_java() {
    local java home homes=()
    [ -z "${JAVA_HOME:-}" ] || homes+=("$JAVA_HOME")
    java=$(command -v java) && java=$(readlink -f "$java") && homes+=("${java%/bin/java}")
    for home in /usr/lib/jvm/*; do
        [ ! -x "$home/bin/java" ] || homes+=("$home")
    done
    for home in "${homes[@]}"; do
        if suitable_java "$home"; then
            printf '%s\n' "$home"
            return
        fi
    done
    return 1
}

java_home() {
    find_java && return
    if may_install && apt_install "${JAVA_PACKAGES[@]}"; then
        find_java && return
    fi
    stop "Spark needs Java $JAVA_MINIMUM or later (a full runtime, with the module jdk.incubator.vector)." \
        "Debian, Ubuntu: sudo apt-get install ${JAVA_PACKAGES[0]}   (or ${JAVA_PACKAGES[1]})" \
        "If it is installed somewhere else, set JAVA_HOME to the folder that holds bin/java."
}

case "${1:-}" in
    venv) make_venv ;;
    java) java_home ;;
    *) stop "usage: scripts/setup.sh venv|java" ;;
esac
