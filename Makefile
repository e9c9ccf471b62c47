# Sidecall. `make help` lists what there is to do.
#
# `make unit` needs Go and nothing else; `make test` installs what it talks to.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO ?= go
BUF := $(GO) tool -modfile=tools/buf/go.mod buf
GOLANGCI := $(GO) tool -modfile=tools/golangci-lint/go.mod golangci-lint
GOVULNCHECK := $(GO) tool -modfile=tools/govulncheck/go.mod govulncheck
PYTHON := test/e2e/.venv/bin/python
AGENTS := test/e2e/.venv-agents/bin/python

# The race detector needs a C compiler. Without one the unit tests still run,
# and say that they ran without it. `make test` insists on it: RACE=-race.
RACE ?= $(shell command -v "$$($(GO) env CC)" >/dev/null 2>&1 && echo -race)

# Not by its own name in a recipe: make runs a line that has that name in it even
# where it is only asked to say what it would do (make -n).
THIS_MAKE := $(MAKE)

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z0-9-]*:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## Build and run

.PHONY: build
build: ## Build bin/sidecall
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/sidecall ./cmd/sidecall

.PHONY: demo
demo: ## Watch Sidecall survive the incidents; nothing to install
	$(GO) run ./cmd/sidecall demo

.PHONY: picture
picture: ## Draw docs/demo.svg: what the demo prints, for the README
	$(GO) run ./cmd/sidecall demo | $(GO) run ./tools/demosvg >docs/demo.svg

.PHONY: bench
bench: ## Measure against the floor, and print where the time goes (compare -parts: what a call costs without a part); needs redis-server
	$(GO) run ./test/bench/compare

.PHONY: npm
npm: ## Pack dist/npm: @sidecall/client and the sidecar for each platform, PLATFORMS=here: for this one; tries them
	GO="$(GO)" tools/npm.sh dist/npm $(PLATFORMS)

.PHONY: wheel
wheel: ## Python wheels that carry the sidecar, in dist/, for each platform, PLATFORMS=here: for this one; tries them
	GO="$(GO)" tools/wheels.sh dist $(PLATFORMS)

.PHONY: clean
clean: ## Remove what was built or installed below this directory
	rm -rf bin clients/node/node_modules test/e2e/node/node_modules test/e2e/conformance/node_modules test/e2e/.venv test/e2e/.venv-sqlite test/e2e/.venv-agents
	rm -rf clients/node/dist* clients/node/src/generated
	rm -rf clients/python/build clients/python/src/sidecall.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

## Test

.PHONY: test
test: ## THE test command: all but what a clock judges, with timings; installs what it needs
	@GO="$(GO)" MAKE="$(THIS_MAKE)" tools/test.sh

.PHONY: quick
quick: ## What one runs while working: vet, and the unit tests of what has changed, without the race detector
	$(GO) vet ./...
	$(GO) test -vet=off ./...

.PHONY: test-frozen
test-frozen: ## The same on a machine that stands still for five seconds in every minute
	GO="$(GO)" MAKE="$(THIS_MAKE)" tools/freeze.sh tools/test.sh

.PHONY: unit
unit: ## Unit tests: Go and nothing else
	@test -n "$(RACE)" || echo "unit: no C compiler, so no race detector"
	GO="$(GO)" tools/unit.sh $(RACE)

.PHONY: e2e
e2e: deps ## End-to-end tests: real servers, real clients, faults
	tools/e2e.sh $(RACE)

.PHONY: prove
prove: deps ## Every fault, every figure, some two hours: one table, no violation, or it fails
	GO="$(GO)" $(GO) run ./test/prove -full

.PHONY: prove-short
prove-short: deps ## The short form of it, a few minutes
	GO="$(GO)" $(GO) run ./test/prove

.PHONY: prove-counted
prove-counted: deps ## What of the short form compares and counts, and needs no clock: as in make test, two steps at a time
	GO="$(GO)" $(GO) run ./test/prove -counted -together 2

.PHONY: figures
figures: deps ## Print what the tests measure: calls repaired, kills survived, duplicates, start, memory
	$(GO) test -count=1 -v ./internal/schema -run TestProgramRepairsCallsFromTheFiveFieldsAlone
	$(GO) test -tags e2e -count=1 -v ./test/e2e -run 'TestRepairOfCallsToRealServers|TestServeWithAThousandTools'
	$(GO) test -tags prove -count=1 -v ./test/prove/crash -run 'TestKilledUnderLoad|TestDuplicates'

.PHONY: test-python
test-python: deps ## The Python client, as packaged
	tools/test-python.sh $(PYTHON) $(AGENTS)

.PHONY: test-node
test-node: deps ## The Node client, as packaged, and its adapters
	GO="$(GO)" tools/test-node.sh

.PHONY: check-readme
check-readme: ## The README's commands, links and table of codes
	tools/check-readme.sh

.PHONY: check-first-hour
check-first-hour: deps ## The newcomer's path, docs/first-hour.md
	tools/check-first-hour.sh $(PYTHON)

.PHONY: check-image
check-image: ## The content of the Docker image, without a Docker engine
	tools/check-image.sh

.PHONY: check-deploy
check-deploy: ## The files of deploy/: manifests, chart, Compose file, systemd unit; without a cluster or an engine
	GO="$(GO)" tools/check-deploy.sh

.PHONY: vuln
vuln: ## Known vulnerabilities in what is called, where their database can be reached
	GOVULNCHECK="$(GOVULNCHECK)" tools/vuln.sh

.PHONY: deps
deps: ## Install what the end-to-end tests need
	tools/deps.sh

## Generate and lint

.PHONY: generate
generate: generate-go generate-python generate-node ## Generate all code from proto/

.PHONY: generate-go
generate-go: ## Generate the Go code from proto/
	$(BUF) generate

.PHONY: generate-python
generate-python: deps ## Generate the Python stubs from proto/
	tools/generate-python.sh $(PYTHON) clients/python/src

.PHONY: generate-node
generate-node: ## Copy the contract into the Node package
	mkdir -p clients/node/proto/sidecall/v1
	cp proto/sidecall/v1/*.proto clients/node/proto/sidecall/v1/

.PHONY: lint
lint: lint-proto lint-generated lint-format lint-house lint-platforms lint-go ## Everything that can be said without running it

.PHONY: fix
fix: ## Format, and let the linters mend what they can
	$(GO) fmt ./...
	$(GOLANGCI) run --fix ./...

.PHONY: lint-proto
lint-proto:
	$(BUF) lint
	BUF="$(BUF)" tools/buf-breaking.sh

.PHONY: lint-generated
lint-generated:
	BUF="$(BUF)" tools/check-generated.sh

.PHONY: lint-format
lint-format:
	tools/check-format.sh

.PHONY: lint-house
lint-house:
	$(GO) run ./tools/house

.PHONY: lint-platforms
lint-platforms:
	tools/platforms.sh | while read -r platform _; do \
		case $$platform in "$$($(GO) env GOOS)"/*) continue ;; esac; \
		GO="$(GO)" tools/binary.sh "$$platform" /dev/null lint || exit; \
	done

.PHONY: lint-go
lint-go:
	$(GOLANGCI) run --timeout 15m ./...
