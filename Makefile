# The two commands of the README are `make demo` and `make test`; the rest serves them.

BUILD_DEBS := build-essential pkg-config clang libelf-dev zlib1g-dev
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

# Recording a host takes root. As another user, only the programs run under sudo, not the build.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo -E)
TCPWHY := target/debug/tcpwhy
PREFIX ?= /usr/local
BPF_SOURCES := $(wildcard crates/observe/bpf/*.c crates/observe/bpf/*.h)

.PHONY: demo test test-built test-pure test-live test-page test-views test-fleet test-lab test-browser test-signals test-hostile test-kernels check-arm64 build dist test-dist install uninstall page lint docs pictures bench need-build need-page need-run need-test need-programs need-fleet need-ssh need-spark need-dist need-kernels clean

demo: need-build need-run
	@cargo build -q --workspace --bin tcpwhy --bin tcpwhy-lab || { echo "make demo: the build failed" >&2; exit 1; }
	@$(ROOT) $(TCPWHY) lab run syn-cookies || { echo "make demo: the lab run failed" >&2; exit 1; }

# Each step though one before it failed, and then what took longest.
test: need-build need-page need-run need-test need-fleet
	@rm -f target/test-times
	@$(MAKE) -sk --no-print-directory lint test-built test-pure test-live test-page test-views; status=$$?; \
	    tools/timed-runner --slowest; \
	    [ $$status -eq 0 ] || { echo "make test: something is wrong (above)" >&2; exit 1; }

# Cargo runs test programs through this, which times them; RUN_AS is what they run under.
TIMED := CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$(CURDIR)/tools/timed-runner \
         CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$(CURDIR)/tools/timed-runner
# Programs and tests in one go: a build of the programs alone would have other features, and so
# compile half of the workspace again.
BUILT := --workspace --lib --bins --tests --test 'live_*' --test lab_live --test browser

test-built:
	@cargo build -q $(BUILT) || { echo "make test: the build failed" >&2; exit 1; }

# What needs no root: any user, all at once.
test-pure: test-built
	@$(TIMED) cargo test -q --workspace --lib --bins --tests --no-fail-fast \
	    || { echo "make test-pure: tests failed (above)" >&2; exit 1; }
	@cargo test -q --doc -p recording -p analysis -p explain -p synth >/dev/null \
	    || { echo "make test-pure: an example of a library does not work: cargo test --doc" >&2; exit 1; }

# What needs root, one test at a time, with debug assertions on. Unit tests that need it are ignored
# elsewhere.
test-live: test-built
	@$(TIMED) RUN_AS='$(ROOT)' cargo test -q --workspace --no-fail-fast --test 'live_*' -- --test-threads=1 --format=pretty \
	    || { echo "make test-live: tests failed (above)" >&2; exit 1; }
	@$(TIMED) RUN_AS='$(ROOT)' cargo test -q --workspace --no-fail-fast --lib -- --ignored --test-threads=1 --format=pretty \
	    || { echo "make test-live: tests failed (above)" >&2; exit 1; }

# Tests of the report's page without a browser.
test-page:
	@npm --prefix web -s test || { echo "make test-page: tests of the report's page failed (above)" >&2; exit 1; }

# The fleet's package, with DuckDB inside.
test-views: need-fleet
	@cd fleet && .venv/bin/pytest || { echo "make test-views: the fleet's tests failed (above)" >&2; exit 1; }

# The same views on Spark, a real master and two executors; collect over a real sshd; eight recorded hosts.
# FLEET chooses among them.
test-fleet: FLEET ?= spark or ssh or lab
test-fleet: need-build need-run need-ssh $(if $(findstring spark,$(or $(FLEET),spark)),need-spark,need-fleet) test-built
	@cd fleet && $(ROOT) .venv/bin/pytest -m '$(FLEET)' --durations=5 \
	    || { echo "make test-fleet: the fleet's tests failed (above)" >&2; exit 1; }

# The lab's own tests, the scenarios that `make test` leaves out, and the advice of all that have some.
test-lab: need-build need-run need-test need-programs test-built
	@rm -f target/test-times
	@$(TIMED) RUN_AS='$(ROOT)' cargo test -q --workspace --test lab_live -- --test-threads=1 --format=pretty \
	    || { echo "make test-lab: the lab's own tests failed (above)" >&2; exit 1; }
	@$(TIMED) RUN_AS='$(ROOT)' cargo test -q --workspace --test live_scenarios -- --ignored --test-threads=1 --format=pretty \
	    || { echo "make test-lab: a scenario is not told right (above)" >&2; exit 1; }
	@tools/timed-runner --slowest

# Reports in a real browser.
test-browser: need-build need-page need-run need-test test-built
	@$(TIMED) RUN_AS='$(ROOT)' cargo test -q --workspace --test browser \
	    || { echo "make test-browser: a report does not work in a browser (above)" >&2; exit 1; }

# A campaign of N signals at random moments to verbs that record, and what is left after each; of
# another SEED another one.
test-signals: N ?= 54
test-signals: SEED ?= 1
test-signals: need-build need-run need-test test-built
	@$(TIMED) RUN_AS='$(ROOT)' SIGNALS=$(N) SEED=$(SEED) cargo test -q --workspace --test live_hostile -- signals:: --test-threads=1 --nocapture \
	    || { echo "make test-signals: something was left, lost or did not end (above)" >&2; exit 1; }

lint: need-fleet
	@cargo fmt --all --check || { echo "make lint: run cargo fmt --all" >&2; exit 1; }
	@cargo clippy -q $(BUILT) --examples -- -D warnings || { echo "make lint: clippy has complaints (above)" >&2; exit 1; }
	@cd fleet && .venv/bin/ruff format -q --check . && .venv/bin/ruff check -q . \
	    || { echo "make lint: the fleet's package has complaints (above); fleet/.venv/bin/ruff format fleet mends some" >&2; exit 1; }
	@cd fleet && .venv/bin/mypy --no-error-summary || { echo "make lint: types of the fleet's package (above)" >&2; exit 1; }
	@tools/page --check || { echo "make lint: the report's page is stale (above)" >&2; exit 1; }
	@npm --prefix web run -s lint || { echo "make lint: the report's page has complaints (above); npm --prefix web run format mends most" >&2; exit 1; }
	@clang-format --dry-run -Werror $(BPF_SOURCES) || { echo "make lint: run clang-format -i $(BPF_SOURCES)" >&2; exit 1; }

# Both commands as they are packaged: static, stripped, debug information beside them.
build: need-build
	@tools/release || { echo "make build: the build failed" >&2; exit 1; }
	@echo "built dist/tcpwhy and dist/tcpwhy-lab"

# Packages of both, with what they contain, and sums.
dist: need-build need-dist build
	@tools/dist || { echo "make dist: packaging failed (above)" >&2; exit 1; }

# The packages in clean roots: installed, run, removed; the binary in an empty one.
test-dist: need-run need-dist
	@$(ROOT) tests/dist || { echo "make test-dist: a package does not hold (above)" >&2; exit 1; }

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

# Spoiled recordings against the release build, N of them: none may hang it, abort it or take much
# memory. SEED chooses others. Twenty minutes for three thousand.
test-hostile: N ?= 3000
test-hostile: SEED ?= 1
test-hostile: build
	@cargo build -q -p hostile || { echo "make test-hostile: the build failed" >&2; exit 1; }
	@tools/hostile $(N) $(SEED) || { echo "make test-hostile: something went wrong (above)" >&2; exit 1; }

# Boots older and newer kernels under emulation, some minutes each, and writes docs/kernels.md.
test-kernels: need-run need-kernels build
	@cargo test -q --workspace --test commands kernels:: -- --ignored --nocapture \
	    || { echo "make test-kernels: a kernel gives something else than expected (above)" >&2; exit 1; }

# Draws the pictures of the README and the book anew.
pictures: need-build need-run need-test build
	@$(ROOT) tools/pictures

bench: need-build need-run need-test need-bench build
	@$(ROOT) bench/run

need-build:
	@command -v cargo >/dev/null || { echo "make: cargo not found; install Rust first (rustup or apt-get install cargo)" >&2; exit 1; }
	@tools/need $(BUILD_DEBS)

need-page:
	@command -v npm >/dev/null || tools/need $(NPM_DEBS)

need-fleet:
	@tools/need-fleet test

need-ssh:
	@tools/need $(FLEET_DEBS)

need-spark:
	@tools/need $(SPARK_DEBS)
	@tools/need-fleet test,spark

need-dist:
	@tools/need $(DIST_DEBS)

need-run:
	@tools/need $(RUN_DEBS)

need-test:
	@tools/need $(TEST_DEBS)

need-programs:
	@tools/need $(PROGRAM_DEBS)

need-bench:
	@tools/need $(BENCH_DEBS)

need-kernels:
	@tools/need $(KERNEL_DEBS)

clean:
	cargo clean
