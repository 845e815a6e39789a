#!/bin/sh
# Installs what is named and is not there yet, from Debian's packages, and says so: setup.sh PACKAGE...
# Always checks for cargo. `cc` stands for a C linker, which Rust needs, `c++` for a C++ compiler.
set -eu

say() { printf 'setup: %s\n' "$*"; }

if ! command -v cargo >/dev/null 2>&1; then
    if [ -x "$HOME/.cargo/bin/cargo" ]; then
        say "cargo is in ~/.cargo/bin, which is not in PATH: run  . ~/.cargo/env"
    else
        say "cargo is missing. Debian 12's own (1.63) is too old; install a current one with rustup: https://rustup.rs"
    fi
    exit 1
fi

# The command that tells whether a package is there; a package without commands is asked for by name.
command_of() {
    case $1 in
        cc | c++) echo "$1" ;;
        apache2-utils) echo ab ;;
        nghttp2-client) echo h2load ;;
        nginx-light) echo nginx ;;
        lighttpd) echo lighttpd ;;
        golang-go) echo go ;;
        default-jdk-headless) echo javac ;;
        nodejs) echo node ;;
        chromium | curl | strace | tsung | valgrind | wget | wrk) echo "$1" ;;
        *) echo "" ;;
    esac
}

is_there() {
    wanted=$(command_of "$1")
    if [ -n "$wanted" ]; then
        PATH="$PATH:/usr/sbin" command -v "$wanted" >/dev/null 2>&1
    else
        dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
    fi
}

missing=
for package in "$@"; do
    is_there "$package" && continue
    case $package in
        cc) package="gcc libc6-dev" ;;
        c++) package=g++ ;;
    esac
    missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    say "please install these by the means of your system:$missing"
    exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        say "root is needed once:  apt-get install$missing"
        exit 1
    fi
    as_root=sudo
fi
say "installing with apt-get:$missing"
$as_root apt-get update -qq
# shellcheck disable=SC2086 # the list is a list
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
