#!/bin/sh
# apt.sh PACKAGE...: installs Debian packages where that is possible, as root
# with apt. Elsewhere it does nothing: who needs them says so.
set -eu
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	exit 0
fi
missing=
for package in "$@"; do
	dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends $missing
