#!/bin/sh
# generate.sh [--check]: generates the Go code of the protocol with protoc and
# the plugins that protocol/go.mod pins. With --check it writes nothing and
# fails if the committed code differs. Without protoc it says so: nobody needs
# it to build, and CI installs it.
set -eu
cd "$(dirname "$0")/../protocol"

if ! command -v protoc >/dev/null; then
	echo "generate: protoc is not installed (Debian: protobuf-compiler)" >&2
	[ "${1-}" = --check ] && [ "${CI-}" != true ]
	exit
fi

to=.
if [ "${1-}" = --check ]; then
	to=$(mktemp -d)
	trap 'rm -rf "$to"' EXIT
fi
sources=$(find . -name '*.proto')
protoc -I . \
	--plugin=protoc-gen-go="$(go tool -n protoc-gen-go)" --go_out="$to" --go_opt=paths=source_relative \
	--plugin=protoc-gen-go-grpc="$(go tool -n protoc-gen-go-grpc)" --go-grpc_out="$to" --go-grpc_opt=paths=source_relative \
	$sources
[ "$to" = . ] && exit

for file in $(cd "$to" && find . -name '*.go'); do
	if ! diff -u "$file" "$to/$file" >&2; then
		echo "generate: $file is not what its source says: run make generate" >&2
		exit 1
	fi
done
