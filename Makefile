# proxkit's daily commands; `make help` lists them.

PRODUCT ?= pve
VERSION ?=
FROM    ?=
WIRE    ?=

BIN := $(CURDIR)/bin
TOOLS := $(CURDIR)/.tmp/bin
GOFUMPT_VERSION := v0.12.0
STATICCHECK_VERSION := v0.8.2

# The race detector needs cgo, hence a C compiler.
RACE := $(shell command -v gcc >/dev/null 2>&1 && [ "$$(go env CGO_ENABLED)" = 1 ] && echo -race)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the example programs into bin/
	@mkdir -p $(BIN)
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $(BIN)/ ./examples/...

.PHONY: demo
demo: build ## watch a BOSH lifecycle on a simulated cluster, through the real CPI binary
	@$(BIN)/demo -cpi $(BIN)/proxmox-cpi -sim $(BIN)/pve-sim

.PHONY: conformance
conformance: build ## run the conformance suite against the CPI binary on a simulated cluster
	@$(BIN)/cpi-check -cpi $(BIN)/proxmox-cpi

.PHONY: test
test: ## run all tests, with the race detector where there is a C compiler
	go test $(RACE) -timeout 20m ./...

.PHONY: fuzz
fuzz: ## run every fuzz test for a short while
	@go list -f '{{.Dir}} {{range .TestGoFiles}}{{.}} {{end}}{{range .XTestGoFiles}}{{.}} {{end}}' ./... | while read -r dir files; do \
		for f in $$files; do sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$dir/$$f"; done | sort -u | while read -r name; do \
			echo "$$dir $$name"; (cd "$$dir" && go test -run '^$$' -fuzz "^$$name\$$" -fuzztime 15s .) || exit 1; \
		done || exit 1; \
	done

.PHONY: generate
generate: ## remake the OpenAPI documents and the clients from apidoc/
	go run ./internal/generator generate

.PHONY: check-generated
check-generated: generate ## fail when the committed generated files are not current
	@git diff --exit-code --stat -- apidoc gen pve pbs pdm && test -z "$$(git status --porcelain -- gen pve pbs pdm | grep '^??')" || \
		{ echo "generated files are not current: run 'make generate' and commit"; exit 1; }

.PHONY: apidoc
apidoc: ## add a product's API facts: make apidoc PRODUCT=pve VERSION=9.3 FROM=<file|URL|host>
	go run ./internal/generator apidoc -product '$(PRODUCT)' -version '$(VERSION)' -from '$(FROM)'

$(TOOLS)/gofumpt:
	GOBIN=$(TOOLS) go install mvdan.cc/gofumpt@$(GOFUMPT_VERSION)

$(TOOLS)/staticcheck:
	GOBIN=$(TOOLS) go install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)

.PHONY: lint
lint: $(TOOLS)/gofumpt $(TOOLS)/staticcheck ## gofumpt, vet, staticcheck, and a tidy go.mod
	@out=$$(git ls-files '*.go' | xargs $(TOOLS)/gofumpt -l); test -z "$$out" || { echo "gofumpt would change:"; echo "$$out"; exit 1; }
	go vet ./...
	$(TOOLS)/staticcheck ./...
	go mod tidy -diff

.PHONY: fmt
fmt: $(TOOLS)/gofumpt ## format every Go file
	git ls-files '*.go' | xargs $(TOOLS)/gofumpt -w

.PHONY: bench
bench: build ## run the benchmarks and measure the binaries
	go test -run '^$$' -bench . -benchmem ./...
	go run ./internal/measure

.PHONY: fidelity
fidelity: ## replay recorded exchanges of a real PVE against pvetest: make fidelity WIRE=FILE
	go run ./internal/fidelity -wire '$(or $(WIRE),../shared/wire/pve-9.2.jsonl)'

.PHONY: fault-matrix
fault-matrix: build ## try every fault at every API call of every CPI method, and what the Director does next
	go run ./internal/faultmatrix -cpi $(BIN)/proxmox-cpi

.PHONY: burst
burst: build ## let 64, then 200 CPI processes loose on one node at once
	go run ./internal/burst -cpi $(BIN)/proxmox-cpi
