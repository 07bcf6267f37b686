# `make` looks, `make fix` edits. Every target sets up what it needs below
# .cache, which git ignores.

MODULES  := internal protocol supervisor worker worker/builtin integration
PACKAGES := $(MODULES:%=./%/...)
UNIT     := $(filter-out ./integration/...,$(PACKAGES))

CACHE := $(CURDIR)/.cache

GOLANGCI_VERSION := v2.15.0
LINT := $(CACHE)/bin/golangci-lint-$(GOLANGCI_VERSION)

# How long each fuzz target runs: so many inputs here, 60 s in test-extended.
# Inputs, not seconds: before Go 1.27 a fuzz run that ends by its time may call
# that a failure (golang/go#75804).
FUZZTIME ?= 20000x
# Whose targets they are; the parsers of what clients, servers, supervisors and
# users give are fuzzed for each change.
FUZZED  ?= $(MODULES:%=%/...)
PARSERS := internal/line internal/envelope worker worker/builtin/internal/bridge worker/builtin/internal/ipynb \
	worker/builtin/internal/zmtp worker/builtin/internal/jupyter worker/builtin/internal/outputs supervisor/internal/editor

.DEFAULT_GOAL := check

.PHONY: help
help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

## ---- look

.PHONY: check
check: verify-lint verify-generated verify-tidy verify-cross verify-contract ## Check everything but what the tests check (the default)

.PHONY: verify-lint
verify-lint: $(LINT) ## Formatting, vet and linters
	$(LINT) fmt --diff $(MODULES)
	$(LINT) run $(PACKAGES)

.PHONY: verify-generated
verify-generated: ## Generated code is what its sources say
	scripts/generate.sh --check

.PHONY: verify-tidy
verify-tidy: ## go.mod and go.sum of all modules are tidy
	go run ./integration/tidy -check .

.PHONY: verify-cross
verify-cross: ## Windows and macOS build and vet
	GOOS=windows go vet $(PACKAGES)
	GOOS=darwin go vet $(PACKAGES)
	GOOS=windows go build -o $(CACHE)/cross/ ./supervisor/cmd/... ./worker/builtin/cmd/...
	GOOS=darwin go build -o $(CACHE)/cross/ ./supervisor/cmd/... ./worker/builtin/cmd/...

.PHONY: verify-contract
verify-contract: ## docs/contract.md names the tests that prove it
	go test -count=1 -run 'TestContractTable|TestDependencyRules' ./integration

## ---- build and run

.PHONY: build
build: ## Build holdfast and holdfast-worker into bin/
	go build -o bin/ ./supervisor/cmd/holdfast ./worker/builtin/cmd/holdfast-worker

.PHONY: man
man: build ## Write the manual pages into bin/man/man1
	bin/holdfast man bin/man/man1

.PHONY: demo
demo: build ## Kill a worker in the middle of a call and show what the client sees
	go run ./integration/demo -holdfast bin/holdfast

# Flags of the benchmark, such as -quick, -reps 15 or -json.
BENCHFLAGS ?=
# How often each kind of worker is killed.
KILLS ?= 50
# How often a worker is replaced by overlap or killed; the other ways are done a fifth as often.
SWAPS ?= 50
# How often one resource changes 10,000 times a second, for two seconds each.
FLOODS ?= 7

.PHONY: bench
bench: bench-build ## Measure against a server without holdfast
	bin/bench $(BENCHFLAGS)

.PHONY: bench-kill
bench-kill: bench-build ## Measure from the death of a worker to the next answer
	bin/bench -kill $(KILLS) $(BENCHFLAGS)

.PHONY: bench-swap
bench-swap: bench-build ## Measure what clients see of replacements under load
	bin/bench -swap $(SWAPS) $(BENCHFLAGS)

.PHONY: bench-flood
bench-flood: bench-build ## Measure calls and other updates while one resource changes on and on
	bin/bench -flood $(FLOODS) $(BENCHFLAGS)

.PHONY: bench-build
bench-build: build
	go build -o bin/ ./integration/bench ./integration/testserver

## ---- test

.PHONY: test
test: deps ## Run all tests
	go test -race $(UNIT)
	go test -timeout 20m ./integration/...

.PHONY: fuzz-parsers
fuzz-parsers: ## Run the fuzz targets of the parsers for FUZZTIME
	$(MAKE) fuzz FUZZED="$(PARSERS)"

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME
	scripts/fuzz.sh $(FUZZTIME) $(FUZZED)

.PHONY: test-extended
test-extended: deps-extended ## Run what takes too long for each change
	$(MAKE) fuzz FUZZTIME=60s
	HOLDFAST_KILLS=500 HOLDFAST_RACE=1 go test -count=1 -timeout 60m -v -run 'TestKillUnderLoad|TestFailpoints' ./integration
	HOLDFAST_RUNS=1000 go test -count=1 -timeout 60m -run TestSUP6AnyMoment ./integration
	HOLDFAST_EXTENDED=1 go test -count=1 -race -run TestModel ./supervisor/internal/lease
	HOLDFAST_EXTENDED=1 HOLDFAST_RUNS=100 go test -count=1 -timeout 20m -v ./worker/builtin/internal/jupyter
	HOLDFAST_EXTENDED=1 HOLDFAST_RUNS=200 go test -count=1 -timeout 90m -v -p 1 ./integration/...

## ---- edit

.PHONY: fix
fix: $(LINT) generate ## Mend what a tool can mend
	$(LINT) fmt $(MODULES)
	$(LINT) run --fix $(PACKAGES)
	go run ./integration/tidy .
	go test -count=1 -run TestContractTable ./integration -update-contract

.PHONY: generate
generate: ## Generate code again
	scripts/generate.sh

## ---- set up

.PHONY: tools
tools: $(LINT) ## Install the pinned linter into .cache

$(LINT):
	GOBIN=$(CACHE)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(CACHE)/bin/golangci-lint $@

.PHONY: deps
deps: ## Install what the tests need: npm packages into .cache, Debian packages where root
	scripts/apt.sh python3-nbformat python3-ipykernel python3-nbclient || echo "deps: left out; tests say what they miss" >&2
	scripts/deps.sh

.PHONY: deps-extended
deps-extended: deps ## Install what test-extended needs as well (2 GB, minutes)
	scripts/deps-extended.sh

.PHONY: clean
clean: ## Remove what was built and installed
	rm -rf bin .cache
