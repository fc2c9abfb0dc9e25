# The two commands of the README are `make demo` and `make test`; the rest serves them.

BUILD_DEBS := build-essential pkg-config clang libelf-dev zlib1g-dev
# Only where there is no npm: a host may have a node of its own.
NPM_DEBS   := nodejs npm
RUN_DEBS   := iproute2
TEST_DEBS  := clang-format nginx-light apache2-utils wrk nftables tmux chromium fonts-dejavu-core
BENCH_DEBS := libbpf-tools bpftool python3
KERNEL_DEBS := qemu-system-x86 busybox-static cpio kmod xz-utils binutils

# Recording a host takes root. As another user, only the programs run under sudo, not the build.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo -E)
TCPWHY := target/debug/tcpwhy
BPF_SOURCES := $(wildcard crates/observe/bpf/*.c crates/observe/bpf/*.h)

.PHONY: demo test test-hostile test-kernels build lint unit docs pictures bench need-build need-run need-test need-kernels clean

demo: need-build need-run
	@cargo build -q --workspace --bin tcpwhy --bin tcpwhy-lab || { echo "make demo: the build failed" >&2; exit 1; }
	@$(ROOT) $(TCPWHY) lab run syn-cookies || { echo "make demo: the lab run failed" >&2; exit 1; }

test: need-build need-run need-test lint unit

# Debug assertions on; privileged tests need root, which `cargo test` gives to test programs only.
unit:
	@$(if $(ROOT),CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER='$(ROOT)' CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='$(ROOT)') \
	    cargo test --workspace --no-fail-fast -- --test-threads=1 \
	    || { echo "make test: tests failed (above)" >&2; exit 1; }
	@npm --prefix web -s test || { echo "make test: tests of the report's page failed (above)" >&2; exit 1; }

lint:
	@cargo fmt --all --check || { echo "make lint: run cargo fmt --all" >&2; exit 1; }
	@cargo clippy -q --workspace --all-targets -- -D warnings || { echo "make lint: clippy has complaints (above)" >&2; exit 1; }
	@npm --prefix web run -s lint || { echo "make lint: the report's page has complaints (above); npm --prefix web run format mends most" >&2; exit 1; }
	@clang-format --dry-run -Werror $(BPF_SOURCES) || { echo "make lint: run clang-format -i $(BPF_SOURCES)" >&2; exit 1; }

build: need-build
	@cargo build --release --workspace --bin tcpwhy --bin tcpwhy-lab || { echo "make build: the build failed" >&2; exit 1; }
	@echo "built target/release/tcpwhy"

# Writes the generated pages of the book and the types of the report's page anew; tests check that
# they are current.
docs: need-build
	@BLESS=1 cargo test -q --workspace --test book
	@BLESS=1 cargo test -q --workspace --lib the_pages_types_are_current

# Spoiled recordings against the release build, N of them: none may hang it, abort it or take much
# memory. SEED chooses others. Twenty minutes for three thousand.
N ?= 3000
SEED ?= 1
test-hostile: build
	@cargo build -q --release -p hostile || { echo "make test-hostile: the build failed" >&2; exit 1; }
	@tools/hostile $(N) $(SEED) || { echo "make test-hostile: something went wrong (above)" >&2; exit 1; }

# Boots older and newer kernels under emulation, some minutes each, and writes docs/kernels.md.
test-kernels: need-build need-run need-kernels
	@cargo test -q --workspace --test kernels -- --ignored --nocapture \
	    || { echo "make test-kernels: a kernel gives something else than expected (above)" >&2; exit 1; }

# Draws the pictures of the README and the book anew.
pictures: need-build need-run need-test build
	@$(ROOT) tools/pictures

bench: need-build need-run need-test need-bench build
	@$(ROOT) bench/run

need-build:
	@command -v cargo >/dev/null || { echo "make: cargo not found; install Rust first (rustup or apt-get install cargo)" >&2; exit 1; }
	@tools/need $(BUILD_DEBS)
	@command -v npm >/dev/null || tools/need $(NPM_DEBS)

need-run:
	@tools/need $(RUN_DEBS)

need-test:
	@tools/need $(TEST_DEBS)

need-bench:
	@tools/need $(BENCH_DEBS)

need-kernels:
	@tools/need $(KERNEL_DEBS)

clean:
	cargo clean
