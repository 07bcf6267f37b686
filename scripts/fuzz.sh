#!/bin/sh
# fuzz.sh TIME PATTERN...: runs each fuzz target of the packages for TIME.
set -eu
cd "$(dirname "$0")/.."
time=$1
shift
for pattern in "$@"; do
	for package in $(go list "./$pattern"); do
		for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
			echo "fuzz: $package $target" >&2
			go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"
		done
	done
done
