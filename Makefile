# Copyright 2026 The Fairslice Authors
# SPDX-License-Identifier: Apache-2.0
#
# Every target sets up what it needs and says what it is doing. What takes long
# is kept in $FAIRSLICE_CACHE (default ~/.cache/fairslice) for the next time.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
CACHE := $(or $(FAIRSLICE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/fairslice)
GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := $(CACHE)/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)
IMAGE ?= ghcr.io/fairslice/fairslice
IMAGE_TOOL ?= $(shell command -v docker || command -v podman || command -v buildah)

# say TEXT: what comes next and how long it takes on two cores.
say = @printf '\033[1m==> %s\033[0m\n' "$(1)"

.PHONY: help build interceptor test explore race fuzz e2e demo bench packing lint generate verify images clean prerequisites root

help: ## this text
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: prerequisites ## the binary, bin/fairslice
	$(call say,building bin/fairslice (about 1 min when nothing is cached))
	go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/fairslice ./cmd/fairslice

interceptor: prerequisites ## the library that holds containers to their GPU memory, bin/libfairslice.so
	$(call say,building libfairslice.so (a few seconds))
	@mkdir -p bin
	$(MAKE) -C deviceplugin/interceptor library OUT=$(CURDIR)/bin

# CASES of each property test, drawn from SEED (0: another one each time), so that
# a run says the same twice; and the packages that have some.
CASES ?= 1000
SEED ?= 1
PROPERTY_TESTS = $(shell grep -rl --include='*_test.go' '"pgregory.net/rapid"' . | xargs -n1 dirname | sort -u)

test: prerequisites ## unit tests, property tests, and the suites on a real control plane (no root, no GPU)
	$(call say,fetching or building etcd and Kubernetes (about 10 min the first time, then nothing))
	go run ./test/bed/cmd/bed-tools etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok controller-gen >/dev/null
	$(call say,running the property tests with $(CASES) cases each (about 2 min))
	go test -timeout 30m $(TESTFLAGS) $(PROPERTY_TESTS) -rapid.checks=$(CASES) -rapid.seed=$(SEED)
	$(call say,proving under the race detector on 1 and 2 cores that plans ignore the order of the input (about 1 min))
	go test -race -cpu 1,2 -run TestPlanIgnoresTheOrderOfTheInput -timeout 30m $(TESTFLAGS) ./core/cycle -rapid.checks=$(CASES) -rapid.seed=$(SEED)
	$(call say,running all other tests that need neither root nor a GPU (about 10 min))
	go test -timeout 30m $(TESTFLAGS) $$(go list ./... | grep -vxF "$$(go list $(PROPERTY_TESTS))")

race: prerequisites ## tests of the concurrent parts and of determinism under the race detector
	$(call say,running tests with the race detector (about 5 min))
	go test -race -timeout 30m $(TESTFLAGS) ./core/... ./kube/... ./extender/... ./queuecontroller/... ./deviceplugin/...

explore: ## the property tests with 20,000 cases that nobody has seen yet
	$(call say,running the property tests with 20000 new cases each (about 20 min))
	go test -timeout 2h $(TESTFLAGS) $(PROPERTY_TESTS) -rapid.checks=20000

FUZZTIME ?= 20s
fuzz: prerequisites ## every fuzz test for FUZZTIME (20s)
	$(call say,fuzzing every decoder and parser for $(FUZZTIME) each)
	@grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r dir; do \
	  for name in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go | sed 's/func //'); do \
	    echo "--- $$dir $$name"; go test "$$dir" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME); \
	  done; done

e2e: prerequisites root ## the suite with a real kubelet, containerd and containers (root)
	$(call say,fetching or building the kubelet beside the control plane (about 10 min the first time, then nothing))
	go run ./test/bed/cmd/bed-tools >/dev/null
	$(call say,running the suites on a real node, one after the other (about 8 min))
	go test -tags 'e2e kubelet' -count=1 -p 1 -timeout 30m $(TESTFLAGS) ./test/bed/... ./test/kubelet/...

demo: prerequisites ## a shared GPU cluster on this machine, to watch (DEMO_EXIT=1 ends it by itself)
	$(call say,starting the demo (about 10 min the first time, then under 2 min))
	go run ./test/demo

bench: prerequisites ## benchmarks of decisions and of the extender's data path
	$(call say,running benchmarks (about 5 min))
	go test -run '^$$' -bench . -benchmem -timeout 30m $(BENCHFLAGS) ./core/... ./kube/... ./extender/...

packing: prerequisites ## how well GPUs are packed, on the openb traces in FAIRSLICE_TRACE_DIR
	$(call say,replaying every trace ten times (about 5 min))
	test/packing/replay.sh

lint: prerequisites $(GOLANGCI_LINT) ## style, vet and the project's own rules
	$(call say,checking style and rules (about 2 min))
	go vet ./...
	$(GOLANGCI_LINT) run
	go test ./test/lint

$(GOLANGCI_LINT):
	$(call say,building golangci-lint $(GOLANGCI_LINT_VERSION) (about 4 min, once))
	@mkdir -p $(CACHE)/bin
	GOBIN=$(CACHE)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv $(CACHE)/bin/golangci-lint $@

generate: prerequisites ## CRDs and deep copies from api/
	$(call say,generating manifests/crd and api/v1alpha1/zz_generated.deepcopy.go (seconds))
	tools=$$(go run ./test/bed/cmd/bed-tools controller-gen); \
	$$tools/controller-gen object:headerFile=build/license-header.go.txt crd:crdVersions=v1 paths=./api/... output:crd:dir=manifests/crd

verify: lint test ## what must pass before a change is merged

images: ## container images (docker, podman or buildah)
	@[ -n '$(IMAGE_TOOL)' ] || { echo 'make images needs docker, podman or buildah in PATH' >&2; exit 1; }
	$(call say,building two images with $(notdir $(IMAGE_TOOL)) (about 5 min))
	$(IMAGE_TOOL) build -f build/controlplane.Dockerfile --build-arg VERSION=$(VERSION) -t $(IMAGE):$(VERSION) .
	$(IMAGE_TOOL) build -f build/device-plugin.Dockerfile --build-arg VERSION=$(VERSION) -t $(IMAGE)-device-plugin:$(VERSION) .

clean: ## what was built into the checkout; the cache stays
	rm -rf bin dist deviceplugin/interceptor/build

prerequisites:
	@command -v go >/dev/null || { echo 'Go 1.26 or newer must be in PATH: https://go.dev/dl' >&2; exit 1; }
	@for tool in git gcc; do command -v $$tool >/dev/null && continue; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "==> installing $$tool"; apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy $$tool libc6-dev; \
	  else echo "$$tool must be in PATH: install it with your package manager" >&2; exit 1; fi; done

root:
	@[ "$$(id -u)" = 0 ] || { echo 'this target starts a kubelet and containers: run it as root' >&2; exit 1; }
