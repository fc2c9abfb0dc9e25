# The two commands of the README are `make demo` and `make test`; the rest serves them.

BUILD_DEBS := build-essential pkg-config python3 clang libelf-dev zlib1g-dev
# Only where there is no npm: a host may have a node of its own.
NPM_DEBS   := nodejs npm
RUN_DEBS   := iproute2
TEST_DEBS  := clang-format nginx-light apache2-utils wrk nftables tmux xz-utils bpftool chromium fonts-dejavu-core
# Programs that take part in the lab.
PROGRAM_DEBS := nginx-light haproxy redis-server postgresql iperf3
BENCH_DEBS := libbpf-tools bpftool python3 redis-server redis-tools
DIST_DEBS  := mmdebstrap rpm python3 bash-completion man-db
# Spark runs on Java; sshd is what collect is tried with.
FLEET_DEBS  := openssh-server
SPARK_DEBS  := openjdk-17-jre-headless
KERNEL_DEBS := qemu-system-x86 busybox-static cpio kmod xz-utils binutils nftables

# Each step of a suite is noted with its seconds; what others wrote comes from a cache where that has it (tools/cache).
STEP := tools/step
FROM_CACHE := tools/cache restore
INTO_CACHE := tools/cache save
NEED := $(STEP) apt tools/need

# Recording a host takes root. As another user, only the programs run under sudo, not the build.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo -E)
TCPWHY := target/debug/tcpwhy
PREFIX ?= /usr/local
BPF_SOURCES := $(wildcard crates/observe/bpf/*.c crates/observe/bpf/*.h)

.PHONY: demo test test-all test-reading test-built test-pure test-live test-short test-page test-views test-fleet test-lab test-browser test-signals test-hostile test-siege test-kernels corpus bless check-arm64 build dist test-dist install uninstall page lint docs pictures bench need-build need-all need-cargo need-page need-run need-test need-programs need-fleet need-ssh need-spark need-dist need-kernels clean

demo: need-build need-run
	@$(FROM_CACHE) debug
	@cargo build -q --workspace --bin tcpwhy --bin tcpwhy-lab || { echo "make demo: the build failed" >&2; exit 1; }
	@$(ROOT) $(TCPWHY) lab run syn-cookies || { echo "make demo: the lab run failed" >&2; exit 1; }

# Each step though one before it failed, and then what took how long. `.ci/run` notes the steps of all its targets
# in one file.
SUITE = @$(if $(STEPS),,rm -f target/steps target/test-times;) \
    $(MAKE) -sk --no-print-directory $(1); status=$$?; \
    [ $$status -ne 0 ] || for kind in debug npm python; do $(INTO_CACHE) $$kind; done; \
    $(if $(STEPS),,$(STEP) --table; tools/timed-runner --slowest;) \
    [ $$status -eq 0 ] || { echo "make $@: something is wrong (above)" >&2; exit 1; }

test:
	$(call SUITE,need-all lint test-built test-pure test-short test-live test-page test-views)

# What proves a change of what only reads recordings: no live test but the lab's short scenarios.
test-reading:
	$(call SUITE,need-all lint test-built test-pure test-short test-page test-views)

# Everything there is, from nothing: what a landing may have left out, too. Says so in .ci/proven, from which on
# `.ci/run` leaves out what a change does not touch.
test-all:
	@.ci/run --all

# Cargo runs test programs through this, which times them; RUN_AS is what they run under.
TIMED := CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$(CURDIR)/tools/timed-runner \
         CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$(CURDIR)/tools/timed-runner
# Programs and tests in one go: a build of the programs alone would have other features, and so
# compile half of the workspace again. Cargo takes tests that `cargo test` leaves out by their names only.
BUILT := --workspace --lib --bins --tests
NAMED := --workspace --test '*'

# Tests that need root, but for the lab's scenarios, which have targets of their own.
LIVE := live_observe live_host live_hostile

test-built:
	@$(FROM_CACHE) debug
	@$(STEP) build cargo build -q $(BUILT) && $(STEP) build cargo build -q $(NAMED) \
	    || { echo "make test: the build failed" >&2; exit 1; }

# What needs no root: any user, all at once.
test-pure: test-built
	@$(STEP) pure env $(TIMED) cargo test -q --workspace --lib --bins --tests --no-fail-fast \
	    || { echo "make test-pure: tests failed (above)" >&2; exit 1; }
	@$(STEP) doctests cargo test -q --doc --workspace >/dev/null \
	    || { echo "make test-pure: an example of a library does not work: cargo test --doc" >&2; exit 1; }

# What needs root, one test at a time, with debug assertions on. Unit tests that need it are ignored
# elsewhere.
test-live: test-built
	@$(STEP) live env $(TIMED) RUN_AS='$(ROOT)' cargo test -q --workspace --no-fail-fast $(foreach live,$(LIVE),--test $(live)) -- --test-threads=1 --format=pretty \
	    || { echo "make test-live: tests failed (above)" >&2; exit 1; }
	@$(STEP) live env $(TIMED) RUN_AS='$(ROOT)' cargo test -q --workspace --no-fail-fast --lib -- --ignored --test-threads=1 --format=pretty \
	    || { echo "make test-live: tests failed (above)" >&2; exit 1; }

# The lab's short scenarios.
test-short: test-built
	@$(STEP) lab-short env $(TIMED) RUN_AS='$(ROOT)' cargo test -q --workspace --test live_scenarios -- --test-threads=1 --format=pretty \
	    || { echo "make test-short: a scenario is not told right (above)" >&2; exit 1; }

# Tests of the report's page without a browser.
test-page:
	@$(STEP) page npm --prefix web -s test || { echo "make test-page: tests of the report's page failed (above)" >&2; exit 1; }

# The fleet's package, with DuckDB inside.
test-views: need-fleet
	@cd fleet && ../$(STEP) views .venv/bin/python -m pytest --numprocesses auto \
	    || { echo "make test-views: the fleet's tests failed (above)" >&2; exit 1; }

# The same views on Spark, a real master and two executors; collect over a real sshd; eight recorded hosts.
# FLEET chooses among them.
test-fleet: FLEET ?= spark or ssh or lab
test-fleet: need-build need-run need-ssh $(if $(findstring spark,$(or $(FLEET),spark)),need-spark,need-fleet) test-built
	@cd fleet && ../$(STEP) fleet $(ROOT) .venv/bin/python -m pytest -m '$(FLEET)' --durations=5 \
	    || { echo "make test-fleet: the fleet's tests failed (above)" >&2; exit 1; }

# The lab's own tests, the scenarios that `make test` leaves out, and the advice of all that have some.
test-lab: need-build need-run need-test need-programs test-built
	@$(STEP) lab-own env $(TIMED) RUN_AS='$(ROOT)' cargo test -q --workspace --test lab_live -- --test-threads=1 --format=pretty \
	    || { echo "make test-lab: the lab's own tests failed (above)" >&2; exit 1; }
	@$(STEP) lab env $(TIMED) RUN_AS='$(ROOT)' cargo test -q --workspace --test live_scenarios -- --ignored --test-threads=1 --format=pretty \
	    || { echo "make test-lab: a scenario is not told right (above)" >&2; exit 1; }
	@tools/timed-runner --slowest

# Reports in a real browser.
test-browser: need-build need-page need-run need-test test-built
	@$(STEP) browser env $(TIMED) RUN_AS='$(ROOT)' cargo test -q --workspace --test browser \
	    || { echo "make test-browser: a report does not work in a browser (above)" >&2; exit 1; }

# A campaign of N signals at random moments to verbs that record, and what is left after each; of
# another SEED another one.
test-signals: N ?= 54
test-signals: SEED ?= 1
test-signals: need-build need-run need-test test-built
	@$(TIMED) RUN_AS='$(ROOT)' SIGNALS=$(N) SEED=$(SEED) cargo test -q --workspace --test live_hostile -- signals:: --test-threads=1 --nocapture \
	    || { echo "make test-signals: something was left, lost or did not end (above)" >&2; exit 1; }

lint: need-fleet
	@$(FROM_CACHE) debug
	@$(STEP) fmt cargo fmt --all --check || { echo "make lint: run cargo fmt --all" >&2; exit 1; }
	@$(STEP) clippy cargo clippy -q $(BUILT) --examples -- -D warnings && $(STEP) clippy cargo clippy -q $(NAMED) -- -D warnings \
	    || { echo "make lint: clippy has complaints (above)" >&2; exit 1; }
	@cd fleet && ../$(STEP) fleet-lint sh -c '.venv/bin/ruff format -q --check . && .venv/bin/ruff check -q .' \
	    || { echo "make lint: the fleet's package has complaints (above); fleet/.venv/bin/ruff format fleet mends some" >&2; exit 1; }
	@cd fleet && ../$(STEP) fleet-lint .venv/bin/python -m mypy --no-error-summary || { echo "make lint: types of the fleet's package (above)" >&2; exit 1; }
	@$(STEP) page-lint tools/page --check || { echo "make lint: the report's page is stale (above)" >&2; exit 1; }
	@$(STEP) page-lint npm --prefix web run -s lint || { echo "make lint: the report's page has complaints (above); npm --prefix web run format mends most" >&2; exit 1; }
	@clang-format --dry-run -Werror $(BPF_SOURCES) || { echo "make lint: run clang-format -i $(BPF_SOURCES)" >&2; exit 1; }

# Both commands as they are packaged: static, stripped, debug information beside them. RELEASE=1 optimises across
# all crates, some minutes longer: what is released, and what is measured.
build: need-build
	@$(FROM_CACHE) package
	@$(STEP) package-build tools/release || { echo "make build: the build failed" >&2; exit 1; }
	@$(INTO_CACHE) package
	@echo "built dist/tcpwhy and dist/tcpwhy-lab"

# Packages of both, with what they contain, and sums.
dist: need-build need-dist build
	@$(STEP) package tools/dist || { echo "make dist: packaging failed (above)" >&2; exit 1; }

# The packages in clean roots: installed, run, removed; the binary in an empty one.
test-dist: need-run need-dist
	@$(STEP) package-roots $(ROOT) tests/dist || { echo "make test-dist: a package does not hold (above)" >&2; exit 1; }

# `make build` first, as the user who builds; then `sudo make install`.
install:
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' tools/install

uninstall:
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' tools/install --remove

# What is checked of arm64 on another machine: everything but running it.
check-arm64: need-build
	@tools/check-arm64 || { echo "make check-arm64: something assumes another machine (above)" >&2; exit 1; }

# The report's page, from web/ into crates/view; `make lint` says when it is not current.
page: need-page
	@tools/page

# Writes the generated pages of the book and the types of the report's page anew; tests check that
# they are current.
docs: need-build
	@BLESS=1 cargo test -q --workspace --test commands book::
	@BLESS=1 cargo test -q -p explain --test all json::
	@BLESS=1 cargo test -q --workspace --lib the_pages_types_are_current

# Records the corpus anew, with the build that is packaged: two hours, with nothing else on the machine.
corpus: need-run need-test need-programs build
	@$(ROOT) dist/tcpwhy-lab lab corpus fixtures/corpus
	@$(MAKE) -s --no-print-directory bless

# Writes what explain says of the corpus, and prints what changed.
bless: need-build
	@BLESS=1 cargo test -q --workspace --test commands corpus::explain -- --nocapture
	@$(MAKE) -s --no-print-directory docs

# Spoiled recordings against the release build, N of them: none may hang it, abort it or take much
# memory. SEED chooses others. Twenty minutes for three thousand.
test-hostile: N ?= 3000
test-hostile: SEED ?= 1
test-hostile: build
	@cargo build -q -p hostile || { echo "make test-hostile: the build failed" >&2; exit 1; }
	@tools/hostile $(N) $(SEED) || { echo "make test-hostile: something went wrong (above)" >&2; exit 1; }

# All that a user without rights can do to root's recorder, at once, for SECONDS; then what reads the recording.
test-siege: SECONDS ?= 60
test-siege: need-run build
	@$(ROOT) tools/siege $(SECONDS) || { echo "make test-siege: a bound is not kept (above)" >&2; exit 1; }

# Boots older and newer kernels under emulation, some minutes each, and writes docs/kernels.md.
test-kernels: need-run need-kernels build
	@cargo test -q --workspace --test commands kernels:: -- --ignored --nocapture \
	    || { echo "make test-kernels: a kernel gives something else than expected (above)" >&2; exit 1; }

# Draws the pictures of the README and the book anew.
pictures: need-build need-run need-test build
	@$(ROOT) tools/pictures

bench: export RELEASE = 1
bench: need-build need-run need-test need-bench build
	@$(ROOT) bench/run

# All that `make test` wants, through apt once.
need-all: need-cargo
	@$(NEED) $(BUILD_DEBS) $(RUN_DEBS) $(TEST_DEBS) $(if $(shell command -v npm),,$(NPM_DEBS))
	@$(MAKE) -s --no-print-directory need-page need-fleet

need-cargo:
	@command -v cargo >/dev/null || { echo "make: cargo not found; install Rust first (rustup or apt-get install cargo)" >&2; exit 1; }

need-build: need-cargo
	@$(NEED) $(BUILD_DEBS)

need-page:
	@command -v npm >/dev/null || $(NEED) $(NPM_DEBS)

need-fleet:
	@$(STEP) python tools/need-fleet test

need-ssh:
	@$(NEED) $(FLEET_DEBS)

need-spark:
	@$(NEED) $(SPARK_DEBS)
	@tools/need-fleet test,spark

need-dist:
	@$(NEED) $(DIST_DEBS)

need-run:
	@$(NEED) $(RUN_DEBS)

need-test:
	@$(NEED) $(TEST_DEBS)

need-programs:
	@$(NEED) $(PROGRAM_DEBS)

need-bench:
	@$(NEED) $(BENCH_DEBS)

need-kernels:
	@$(NEED) $(KERNEL_DEBS)

clean:
	cargo clean
