# Sets up what the scripts run in. Sourced by them, never run.
#
# Owns .venv in the project root and, for the live tests, tests/live/node_modules, tests/live/.venv-servers and
# tests/live/.venv-converters; for those of a release tests/release/.venv-release.
# Every step is skipped when its stamp says it was done for the same inputs, and done again from the start when
# it was cut short. Progress goes to stderr, one line a step; the output of pip and npm only when they fail.
# Works with bash 3.2 (macOS).
#
# What is installed into .venv is locked, with hashes: scripts/lib/requirements*.txt, which scripts/lock makes.

root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
venv=$root/.venv
live=$root/tests/live
lock=$root/scripts/lib/requirements.txt
lock_dev=$root/scripts/lib/requirements-dev.txt
unset PYTHONDONTWRITEBYTECODE # what is installed is compiled when it is first imported, which most of it never is

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# Runs a command without its output, which is shown if it fails. Returns the command's status.
quietly() {
    local log status=0
    log=$(mktemp)
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [ "$status" -ne 0 ]; then
        cat "$log" >&2
    fi
    rm -f "$log"
    return "$status"
}

checksum() { cat "$@" | cksum; }

is_recent_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 </dev/null; }

# Prints the first Python that is 3.11 or later; $PYTHON goes first if it is set.
find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.13 python3.12 python3.11 python3 python; do
        if is_recent_python "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    die "Python 3.11 or later is needed and none was found. Install one, or name it: PYTHON=/path/to/python $0"
}

# Makes the virtual environment $1 where there is none that works: half-made, moved here from elsewhere, or
# with an installation that was cut short counts as none. Only .venv has a pip, which installs into all of them:
# to put one into each takes 3 s.
make_venv() {
    local folder=$1 python without_pip=--without-pip
    [ "$folder" != "$venv" ] || without_pip=
    if [ -e "$folder" ] && ! venv_works "$folder"; then
        say "removing ${folder#"$root"/}: it is broken, moved or half-made"
        rm -rf "$folder"
    fi
    if [ -e "$folder" ]; then
        return
    fi
    python=$(find_python)
    say "making ${folder#"$root"/} with $python"
    if ! quietly "$python" -m venv ${without_pip:+"$without_pip"} "$folder"; then
        rm -rf "$folder"
        die "$python cannot make a virtual environment; its venv module may be a package of its own"
    fi
    printf '%s\n' "$folder" >"$folder/.made-at"
}

venv_works() {
    is_recent_python "$1/bin/python" || return 1
    [ "$1" != "$venv" ] || "$1/bin/python" -c 'import pip' >/dev/null 2>&1 </dev/null || return 1
    [ ! -e "$1/.installing" ] || return 1
    [ ! -e "$1/.made-at" ] || [ "$(cat "$1/.made-at")" = "$1" ]
}

pip() {
    local folder=$1 command=$2
    shift 2
    [ "$command" != install ] || set -- --no-compile "$@"
    set -- "$command" --quiet --no-input --disable-pip-version-check "$@"
    [ "$folder" = "$venv" ] || set -- --python "$folder/bin/python" "$@"
    quietly "$venv/bin/python" -m pip "$@"
}

# install_once VENV STAMP KEY COMMAND...: runs the command, which installs, unless VENV/STAMP holds this very KEY.
install_once() {
    local folder=$1 stamp=$1/$2 key=$3
    shift 3
    if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$key" ]; then
        return
    fi
    say "installing into ${folder#"$root"/} (a minute or two the first time)"
    touch "$folder/.installing"
    "$@" || {
        rm -f "$folder/.installing"
        return 1
    }
    printf '%s\n' "$key" >"$stamp"
    rm -f "$folder/.installing"
}

# install_locked VENV LOCK...: what the locks hold, each file checked against its hash, and then this checkout,
# built with the locked setuptools.
install_locked() {
    local folder=$1 file
    local -a files=()
    shift
    for file in "$@"; do
        files+=(-r "$file")
    done
    pip "$folder" install --require-hashes --only-binary :all: "${files[@]}" || return 1
    if "$folder/bin/python" -m pip show --quiet mcpx >/dev/null 2>&1 </dev/null; then
        pip "$folder" uninstall --yes mcpx || return 1 # what this checkout was called before
    fi
    pip "$folder" install --no-deps --no-build-isolation -e "$root"
}

# What the program needs to run.
prepare_runtime() {
    make_venv "$venv"
    if [ -e "$venv/.installed-dev" ]; then
        prepare_dev
        return
    fi
    install_once "$venv" .installed "$(checksum "$root/pyproject.toml" "$lock")" \
        install_locked "$venv" "$lock" ||
        die "MCPX could not be installed: see above"
}

# What the checks and tests need as well.
prepare_dev() {
    make_venv "$venv"
    install_once "$venv" .installed-dev "$(checksum "$root/pyproject.toml" "$lock" "$lock_dev")" \
        install_locked "$venv" "$lock" "$lock_dev" ||
        die "the development dependencies could not be installed: see above"
}

# The gateways of others that scripts/bench and scripts/context measure beside MCPX.
prepare_peers() {
    local peers=$root/scripts/lab/benchmarks
    peer_venv "$peers/.venv-peers" "$peers/requirements.txt"
}

# Those that only scripts/bench measures: over HTTP.
prepare_http_peers() {
    local peers=$root/scripts/lab/benchmarks key
    peer_venv "$peers/.venv-mcp-proxy" "$peers/requirements-mcp-proxy.txt"
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        say "node and npm are not installed: supergateway will not be measured"
        return
    fi
    key=$(checksum "$peers/package-lock.json")
    if [ "$(cat "$peers/node_modules/.installed" 2>/dev/null)" != "$key" ]; then
        say "installing supergateway into scripts/lab/benchmarks/node_modules"
        quietly npm --prefix "$peers" ci --no-audit --no-fund || die "supergateway could not be installed: see above"
        printf '%s\n' "$key" >"$peers/node_modules/.installed"
    fi
}

# peer_venv VENV REQUIREMENTS: the virtual environment of a peer.
peer_venv() {
    make_venv "$1"
    install_once "$1" .installed "$(checksum "$2")" pip "$1" install -r "$2" ||
        die "the peers could not be installed: see above"
}

# What scripts/lock and scripts/newest resolve with.
prepare_locking() {
    make_venv "$venv"
    "$venv/bin/python" -c 'import packaging' 2>/dev/null || pip "$venv" install packaging ||
        die "packaging could not be installed: see above"
}

# A part of the live tests cannot be set up: in CI an error, elsewhere a line, and those tests are skipped.
without() {
    if [ "${CI:-}" = true ]; then
        die "$1"
    fi
    say "$1: the tests that need it will be skipped"
}

prepare_npm_servers() {
    local stamp=$live/node_modules/.installed key
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        without "node and npm are not installed"
        return
    fi
    key=$(checksum "$live/package-lock.json")
    if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$key" ]; then
        return
    fi
    say "installing the npm servers into tests/live/node_modules"
    if quietly npm --prefix "$live" ci --no-audit --no-fund; then
        printf '%s\n' "$key" >"$stamp"
    else
        without "the npm servers could not be installed, see above"
    fi
}

# The converters of real hosts that the definitions of MCPX's own tools must pass.
prepare_converters() {
    make_venv "$live/.venv-converters"
    install_once "$live/.venv-converters" .installed "$(checksum "$live/converters/requirements.txt")" \
        pip "$live/.venv-converters" install -r "$live/converters/requirements.txt" ||
        without "the converters could not be installed, see above"
}

prepare_python_servers() {
    make_venv "$live/.venv-servers"
    install_once "$live/.venv-servers" .installed "$(checksum "$live/requirements.txt")" \
        pip "$live/.venv-servers" install -r "$live/requirements.txt" ||
        without "the Python servers could not be installed, see above"
}

# What MCPX is installed with, and what reads the recipes of a release.
prepare_release_tools() {
    local folder=$root/tests/release
    make_venv "$folder/.venv-release"
    install_once "$folder/.venv-release" .installed "$(checksum "$folder/requirements.txt")" \
        pip "$folder/.venv-release" install -r "$folder/requirements.txt" ||
        without "uv and pipx could not be installed, see above"
}

# Installs Debian's package $2, for whoever may install it, without starting what is in it: $1 is its name for
# people, $3 what is said besides.
install_debian() {
    local name=$1 package=$2 besides=${3:-}
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        without "$name is not installed"
        return
    fi
    say "installing $name$besides"
    apt_install "$package" || without "$name could not be installed, see above"
}

apt_install() {
    [ "${apt_is_up_to_date:-}" = true ] || quietly apt-get update --quiet --quiet || return 1
    apt_is_up_to_date=true # for the next, in this shell
    quietly without_services \
        env DEBIAN_FRONTEND=noninteractive \
        apt-get install --quiet --quiet --yes --no-install-recommends "$1"
}

# The browser of the tests that sign in: Debian's Chromium without windows, in which a page takes a fifth of the
# time, or else one that is installed, or else Debian's with windows.
prepare_browser() {
    local name
    if command -v chromium-headless-shell >/dev/null; then
        return
    fi
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        say "installing Chromium without windows (a minute or two)"
        if apt_install chromium-headless-shell >/dev/null 2>&1; then
            return
        fi
    fi
    for name in chromium chromium-browser google-chrome \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
        if command -v "$name" >/dev/null; then
            return
        fi
    done
    install_debian Chromium chromium " (a minute or two)"
}

# Prometheus's promtool, which checks the metrics: one that is installed, or else Debian's.
prepare_promtool() {
    command -v promtool >/dev/null || install_debian promtool prometheus
}

# HAProxy, which the tests put before replicas: one that is installed, or else Debian's.
prepare_haproxy() {
    [ -n "$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v haproxy)" ] || install_debian haproxy haproxy
}

# Ruby, which reads the Homebrew formula.
prepare_ruby() {
    command -v ruby >/dev/null || install_debian Ruby ruby
}

# Runs a command that installs packages, and has none of their services started (policy-rc.d is asked for each).
without_services() (
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    "$@"
)

# The clients and servers of others that only scripts/matrix drives.
prepare_matrix() {
    local matrix=$live/matrix key
    key=$(checksum "$matrix/package-lock.json")
    if [ "$(cat "$matrix/node_modules/.installed" 2>/dev/null)" != "$key" ]; then
        say "installing the clients into tests/live/matrix/node_modules"
        # not `ci`: it wants the Go server's packages for all systems in the lock, which are not always to be had
        quietly npm --prefix "$matrix" install --no-save --no-audit --no-fund || die "the clients could not be installed: see above"
        printf '%s\n' "$key" >"$matrix/node_modules/.installed"
    fi
    make_venv "$matrix/.venv"
    install_once "$matrix/.venv" .installed "$(checksum "$matrix/requirements.txt")" \
        pip "$matrix/.venv" install -r "$matrix/requirements.txt" ||
        die "FastMCP could not be installed: see above"
}

# The clients of others that scripts/sign-ins compares MCPX with.
prepare_sign_ins() {
    local folder=$live/sign_ins key
    key=$(checksum "$folder/package-lock.json")
    if [ "$(cat "$folder/node_modules/.installed" 2>/dev/null)" != "$key" ]; then
        say "installing mcp-remote into tests/live/sign_ins/node_modules"
        quietly npm --prefix "$folder" ci --no-audit --no-fund || die "mcp-remote could not be installed: see above"
        printf '%s\n' "$key" >"$folder/node_modules/.installed"
    fi
    make_venv "$folder/.venv"
    install_once "$folder/.venv" .installed "$(checksum "$folder/requirements.txt")" \
        pip "$folder/.venv" install -r "$folder/requirements.txt" ||
        die "FastMCP could not be installed: see above"
}
