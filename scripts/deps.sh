#!/bin/sh
# deps.sh [SET...]: installs the pinned npm packages that the integration
# tests use into .cache/npm. A set is a folder of integration/npm; without
# arguments, all but those of deps-extended.sh. Without npm it says so and
# succeeds: the tests that need the packages are skipped then, and fail in CI.
set -eu
cd "$(dirname "$0")/.."

if ! command -v npm >/dev/null; then
	echo "deps: npm is not installed; tests with foreign clients will be skipped" >&2
	exit 0
fi

[ $# -gt 0 ] || set -- $(ls integration/npm | grep -v '^extended-')
for set in "$@"; do
	from=integration/npm/$set to=.cache/npm/$set
	if cmp -s "$from/package-lock.json" "$to/.installed"; then
		continue
	fi
	mkdir -p "$to"
	cp "$from/package.json" "$from/package-lock.json" "$to/"
	echo "deps: npm packages of $from" >&2
	(cd "$to" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
	cp "$from/package-lock.json" "$to/.installed"
done
