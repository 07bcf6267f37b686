#!/bin/sh
# deps-extended.sh: installs what only `make test-extended` uses: the npm sets
# named extended-* (1.5 GB), two more Jupyter kernels where root, and pinned
# servers in Go into .cache/extended/bin (minutes of compiling). What cannot be
# installed is named and left out: its tests are skipped, or fail with
# HOLDFAST_REQUIRE=1.
set -u
cd "$(dirname "$0")/.."

for set in $(ls integration/npm | grep '^extended-'); do
	scripts/deps.sh "$set" || echo "deps: npm set $set is left out" >&2
done

scripts/apt.sh xpython r-cran-irkernel || echo "deps: more kernels are left out" >&2

bin=$PWD/.cache/extended/bin
mkdir -p "$bin"
for program in \
	golang.org/x/tools/gopls@v0.23.0 \
	github.com/grafana/mcp-grafana/cmd/mcp-grafana@v1.6.3 \
	github.com/mark3labs/mcp-go/examples/everything@v1.2.1 \
	github.com/modelcontextprotocol/go-sdk/examples/server/memory@v1.8.0 \
	github.com/modelcontextprotocol/go-sdk/examples/server/sequentialthinking@v1.8.0 \
	github.com/modelcontextprotocol/go-sdk/examples/server/hello@v1.8.0; do
	stamp=$bin/.$(echo "$program" | tr / _)
	[ ! -e "$stamp" ] || continue
	echo "deps: $program" >&2
	if GOWORK=off GOBIN=$bin go install "$program"; then
		touch "$stamp"
	else
		echo "deps: $program is left out" >&2
	fi
done
