#!/bin/sh
# fuzz.sh TIME MODULE...: runs each fuzz target of the modules for TIME.
set -eu
cd "$(dirname "$0")/.."
time=$1
shift
for module in "$@"; do
	for package in $(go list "./$module/..."); do
		for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
			echo "fuzz: $package $target" >&2
			go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"
		done
	done
done
