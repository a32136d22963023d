# Everything that a person or a machine does with this repository. `make help` lists it.

GO ?= go

.PHONY: help build test check bench deps clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 8

build: ## bin/lockdrill
	$(GO) build -o bin/lockdrill ./cmd/lockdrill

test: deps ## all tests
	$(GO) test ./...

check: deps ## what must hold before a change is merged: form, vet, staticcheck, structure, tests under the race detector (without the drills through the binary)
	@test -z "$$(gofmt -l .)" || { echo "gofmt:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) mod tidy -diff
	$(GO) test ./internal/archtest
	$(GO) test -race -short ./...

bench: deps ## benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

deps: ## redis-server, which tests about Redis start on a port of their own
	@.ci/redis-server

clean: ## what the targets above have made
	rm -rf bin
