# The commands of this house. `make serve` to try Weir, `make test` before you hand in a change.
#
# `make serve` builds with the profile for development: it compiles faster than a release, and what
# would be slow without optimisation (SQLite, pictures, password hashes) is optimised there too. For
# people, build with `make release`.

CARGO ?= cargo
DATA ?= data/demo
# Where rustup puts cargo: a shell that was open before does not look there yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.PHONY: help serve release test test-long bench lint fmt
.DEFAULT_GOAL := help

help:
	@echo 'make serve      build and serve a demo community at http://localhost:8080'
	@echo 'make test       run every test'
	@echo 'make test-long  run the fault and soak tests with their full numbers'
	@echo 'make bench      run all benchmarks; make bench-NAME for one'
	@echo 'make lint       check formatting, lints, licences and the house rules'
	@echo 'make fmt        format everything'
	@echo 'make release    build the program for people to run'

serve:
	@scripts/need cargo cc:build-essential
	$(CARGO) build --bin weir
	@exec "$$(scripts/target-dir)/debug/weir" serve --dev --demo --data $(DATA)

release:
	@scripts/need cargo cc:build-essential
	$(CARGO) build --release --package weir --features jemalloc
	@echo "built $$(scripts/target-dir)/release/weir"

test:
	@scripts/test

test-long:
	@WEIR_TEST_LONG=1 scripts/test

bench:
	@scripts/bench

bench-%:
	@scripts/bench $*

lint:
	@scripts/need cargo cc:build-essential
	@scripts/lint

fmt:
	$(CARGO) fmt --all
