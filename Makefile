# A thin front for meson and ninja: each target sets up what it needs by itself.
BUILD ?= build

.PHONY: all demo test bench soak format install setup clean
.DEFAULT_GOAL := all

setup:
	@scripts/setup build

$(BUILD)/build.ninja: | setup
	@meson setup $(BUILD) --buildtype=release >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

demo: all
	@scripts/setup demo
	@scripts/demo $(BUILD)

test:
	@scripts/setup test
	@scripts/run-tests

bench: all
	@scripts/setup test
	@scripts/bench $(BUILD)

soak:
	@scripts/setup test
	@scripts/soak

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

# ninja once more: what is installed where is written down again when the prefix has changed.
# Libraries go to PREFIX/lib, where configure scripts of others look for them
# (--with-portals4=PREFIX).
install: all
	@[ -z "$(PREFIX)" ] || { meson configure $(BUILD) --prefix="$(PREFIX)" --libdir=lib && \
		ninja -C $(BUILD) --quiet; }
	@meson install -C $(BUILD) --no-rebuild

clean:
	rm -rf build build-*
