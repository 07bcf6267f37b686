#!/bin/sh
# fuzz.sh TIME PATTERN...: runs each fuzz target of the packages for TIME, a
# duration or a number of inputs with an x behind it.
set -eu
cd "$(dirname "$0")/.."
time=$1
shift

# fuzz TARGET PACKAGE: fails if an input fails. A run that its time has ended may
# say so as if that were a failure (golang/go#75804): without a failing input it
# is none.
fuzz() {
	if out=$(go test -run '^$' -fuzz "^$1\$" -fuzztime "$time" "$2" 2>&1); then
		echo "$out" | tail -n 2
		return
	fi
	echo "$out"
	echo "$out" | grep -q '^    context deadline exceeded$' && ! echo "$out" | grep -q 'Failing input'
}

for pattern in "$@"; do
	for package in $(go list "./$pattern"); do
		for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
			echo "fuzz: $package $target" >&2
			fuzz "$target" "$package"
		done
	done
done
