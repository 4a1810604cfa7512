# Everyday work. `script/run` and `script/test` do the same from a machine with nothing but git.

PREFIX ?= /usr/local
TARGET  = $(or $(CARGO_TARGET_DIR),target)
RELEASE = $(TARGET)/release
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# What the command says of results that it measures; empty outside of a repository.
COMMIT  = $(shell git describe --always --dirty 2>/dev/null)
# The version of the C interface: GABION_ABI in gabion.h, and the library's soname.
ABI     = $(shell sed -n 's/^\#define GABION_ABI //p' front/capi/include/gabion.h)

.PHONY: all run test check format hooks words bench bench-go bench-hbs bench-hbs-durable bench-kms bench-kms-gates dist dist-check fuzz hbs-faults install install-c install-pages soak

all:
	GABION_COMMIT="$(COMMIT)" cargo build --release --package gabion-cli --package gabion-bench --package gabion-provider --package gabion-capi

run:
	script/run

test:
	script/test

# Quick checks before a commit: format, lints, layers, packages, documentation.
check:
	cargo fmt --all --check
	script/lint
	cargo run --quiet --package xtask -- tidy
	script/deny
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps

format:
	cargo fmt --all

# Has git check the subject of each commit of this clone.
hooks:
	printf '%s\n' '#!/bin/sh' 'exec cargo run --quiet --package xtask -- commit-msg "$$1"' >"$$(git rev-parse --git-path hooks)/commit-msg"
	chmod +x "$$(git rev-parse --git-path hooks)/commit-msg"

# Counts of what makes text hard to read, and the checks of Vale.
words:
	cargo run --quiet --package xtask -- words
	tests/prose/prose.sh

# Engine, TLS and other libraries' figures of this machine: bench/results/*-NAME.ndjson.
NAME ?= $(shell uname -m)
bench:
	script/bench $(NAME)

# Hash-based signatures with a state, beside wolfSSL's: bench/results/hbs-NAME.ndjson and docs/reference/performance-hbs.md.
bench-hbs:
	script/bench-hbs $(NAME)

# The same with their state on a disk: bench/results/hbs-durable-NAME.ndjson and docs/reference/performance-hbs.md.
bench-hbs-durable:
	script/bench-hbs-durable $(NAME)

# The key management service: bench/results/kms-NAME.ndjson and docs/reference/performance-kms.md.
bench-kms:
	script/bench-kms $(NAME)

# The key management service within a process, held against gates: bench/results/kms-criterion-NAME.csv.
bench-kms-gates:
	script/bench-kms-gates $(NAME)

# What a Go client pays for libssl's TLS, with each libssl that is here: bench/results/go-NAME.ndjson.
bench-go:
	cd front/go/bench && go run . -out ../../../bench/results/go-$(NAME).ndjson

# The command and gabion-bench with their manual pages and completions, the provider module, and the C library with its header; the
# bundles of the user who calls this get the same module.
# `make && sudo make install` builds as the user: root builds only what is not there.
install:
	@if [ "$$(id -u)" -ne 0 ] || [ ! -x $(RELEASE)/gabion ] || [ ! -x $(RELEASE)/gabion-bench ] \
	    || [ ! -e $(RELEASE)/libgabion_provider.so ] || [ ! -e $(RELEASE)/libgabion.so ]; then $(MAKE) --no-print-directory all; fi
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/gabion
	install -m 755 $(RELEASE)/gabion $(DESTDIR)$(PREFIX)/bin/gabion.new
	mv -f $(DESTDIR)$(PREFIX)/bin/gabion.new $(DESTDIR)$(PREFIX)/bin/gabion
	install -m 755 $(RELEASE)/gabion-bench $(DESTDIR)$(PREFIX)/bin/gabion-bench.new
	mv -f $(DESTDIR)$(PREFIX)/bin/gabion-bench.new $(DESTDIR)$(PREFIX)/bin/gabion-bench
	install -m 755 $(RELEASE)/libgabion_provider.so $(DESTDIR)$(PREFIX)/lib/gabion/gabion.so.new
	mv -f $(DESTDIR)$(PREFIX)/lib/gabion/gabion.so.new $(DESTDIR)$(PREFIX)/lib/gabion/gabion.so
	@$(MAKE) --no-print-directory install-c install-pages
ifeq ($(DESTDIR),)
	@if [ "$$(id -u)" -eq 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi
	@if [ "$$(id -u)" -eq 0 ] && [ -n "$$SUDO_USER" ]; then \
	    sudo -u "$$SUDO_USER" -H $(PREFIX)/bin/gabion provider refresh; \
	else $(PREFIX)/bin/gabion provider refresh; fi
endif

# Manual pages and completions, which the commands write themselves.
SHARE = $(DESTDIR)$(PREFIX)/share
install-pages:
	install -d $(SHARE)/man/man1 $(SHARE)/bash-completion/completions $(SHARE)/fish/vendor_completions.d $(SHARE)/zsh/site-functions
	for program in gabion gabion-bench; do \
	    $(RELEASE)/$$program man $(SHARE)/man/man1 && \
	    $(RELEASE)/$$program completions bash >$(SHARE)/bash-completion/completions/$$program && \
	    $(RELEASE)/$$program completions fish >$(SHARE)/fish/vendor_completions.d/$$program.fish && \
	    $(RELEASE)/$$program completions zsh >$(SHARE)/zsh/site-functions/_$$program || exit; \
	done

# The C library alone, as it was built, with its header and what pkg-config tells of them.
install-c:
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 644 front/capi/include/gabion.h $(DESTDIR)$(PREFIX)/include/gabion.h
	script/archive $(RELEASE)/libgabion.a $(DESTDIR)$(PREFIX)/lib/libgabion.a.new
	chmod 644 $(DESTDIR)$(PREFIX)/lib/libgabion.a.new
	mv -f $(DESTDIR)$(PREFIX)/lib/libgabion.a.new $(DESTDIR)$(PREFIX)/lib/libgabion.a
	install -m 755 $(RELEASE)/libgabion.so $(DESTDIR)$(PREFIX)/lib/libgabion.so.$(ABI).new
	mv -f $(DESTDIR)$(PREFIX)/lib/libgabion.so.$(ABI).new $(DESTDIR)$(PREFIX)/lib/libgabion.so.$(ABI)
	ln -sf libgabion.so.$(ABI) $(DESTDIR)$(PREFIX)/lib/libgabion.so
	sed -e 's#@PREFIX@#$(PREFIX)#' -e 's#@VERSION@#$(VERSION)#' front/capi/gabion.pc.in \
	    >$(DESTDIR)$(PREFIX)/lib/pkgconfig/gabion.pc

# Packages for Debian and RPM systems, an apt repository, a tarball, an image, Go modules and crates: dist/.
dist:
	script/dist

# Builds dist/ twice and compares each file: bench/results/dist.json.
dist-check:
	script/dist-check

# Coverage-guided fuzzing of everything that reads foreign bytes, a minute a target.
fuzz:
	script/fuzz

# The long counts; the last run's results are bench/results/soak.ndjson.
soak:
	script/soak

# 100,000 faults for the state of hash-based signatures, 25,000 for sectors, and real kills, forks and races:
# bench/results/hbs-faults.ndjson.
hbs-faults:
	script/hbs-faults
