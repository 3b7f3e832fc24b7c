# Kolo. `make help` lists what to ask for; `make lab` and `make test` are all that most people need.
BUILD   ?= build
PREFIX  ?= /usr/local
CC      := gcc
CXX     := g++
CFLAGS  ?= -O2 -g
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wconversion
STRICT  := -Werror=int-conversion -Werror=incompatible-pointer-types -Werror=implicit-function-declaration -Werror=switch
# -Wno-psabi: a note of gcc's about vectors as arguments, which here never leave an inline function.
# -fno-math-errno: a root that may set errno, which nobody reads here, keeps its loop from being vectorised.
KOLO_C  := -std=gnu17 $(WARN) -Wno-psabi -fno-math-errno $(STRICT) -fPIC -pthread -Iext/include -Iext
VERSION := $(shell sed -n 's/.define KOLO_VERSION "\(.*\)"/\1/p' ext/include/kolo.h)

ifneq ($(words $(abspath $(BUILD))),1)
$(error Kolo cannot be built under a folder with a space in its name, got '$(abspath $(BUILD))': move it to another)
endif
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc) --no-print-directory
endif
Q   := $(if $(filter 1,$(V)),,@)
say  = @mkdir -p $(@D)$(if $(Q), && printf '  %-4s %s\n' $(1) $@)
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:

# ---- Which sources make which part. The layout is the architecture: see CONTRIBUTING.md. ----
MPI_SRC     := $(wildcard ext/comm/mpi*.c)
ZMQ_SRC     := $(wildcard ext/comm/zmq*.c)
LIB_SRC     := $(wildcard $(addprefix ext/,$(addsuffix /*.c,core show losses optimizers link plan layers runtime data model \
                                                            engine strategy replica training saving callbacks))) \
               $(filter-out ext/topology/hwloc.c,$(wildcard ext/topology/*.c)) \
               $(filter-out ext/whatif/main.c,$(wildcard ext/whatif/*.c)) \
               $(wildcard ext/backend/*.c ext/backend/reference/*.c) \
               $(filter-out $(MPI_SRC) $(ZMQ_SRC),$(wildcard ext/comm/*.c)) ext/fetch/download.c
ONEDNN_SRC  := $(wildcard ext/backend/onednn/*.c)
CURL_SRC    := ext/fetch/curl.c
HWLOC_SRC   := ext/topology/hwloc.c
DATA_SRC    := ext/fetch/main.c
WHATIF_SRC  := ext/whatif/main.c
BOARD_SRC   := $(wildcard ext/board/*.c)
LAUNCH_SRC  := $(wildcard ext/launch/*.c) $(addprefix ext/core/,cores.c fault_text.c help.c timeline_file.c utf8.c)
WORKER_SRC  := $(wildcard kernel/worker/*.c) kernel/ranks/join.c
RANK_SRC    := kernel/ranks/rank.c kernel/ranks/contact.c kernel/ranks/wire.c kernel/worker_process.c kernel/output.c \
               kernel/display.c kernel/waiting.c kernel/patience.c kernel/exit_status.c kernel/cells/text.c \
               kernel/worker/protocol.c kernel/worker/family.c kernel/worker/segments.c
KERNEL_SRC  := $(wildcard $(addprefix kernel/,*.c $(addsuffix /*.c,cells diagnostics values help export magics debug widgets))) \
               $(filter-out kernel/ranks/rank.c kernel/ranks/join.c,$(wildcard kernel/ranks/*.c)) \
               kernel/worker/protocol.c kernel/worker/family.c kernel/worker/segments.c
JUPYTER_SRC := $(wildcard kernel/jupyter/*.cpp)
PROGRAM_SRC := $(wildcard source_code/*/*.c)
TEST_SRC    := $(sort $(shell find tests/ext tests/kernel -name '*_test.c'))

object   = $(patsubst %,$(BUILD)/obj/%.o,$(basename $(1)))
LIBKOLO := $(BUILD)/lib/libkolo.so
PROGRAMS := $(addprefix $(BUILD)/bin/,$(notdir $(basename $(PROGRAM_SRC))))
BUILT   := $(LIBKOLO) $(if $(ONEDNN_SRC),$(BUILD)/lib/libkolo_onednn.so) $(BUILD)/lib/libkolo_mpi.so $(BUILD)/lib/libkolo_zmq.so \
           $(BUILD)/lib/libkolo_curl.so $(BUILD)/lib/libkolo_hwloc.so $(BUILD)/bin/kolo-data \
           $(BUILD)/bin/kolo-what-if $(BUILD)/bin/kolo-board $(if $(LAUNCH_SRC),$(BUILD)/bin/kolorun) $(BUILD)/bin/kolo-kernel $(BUILD)/bin/kolo-worker $(BUILD)/bin/kolo-rank \
           $(BUILD)/lib/kolo-crash-runtime.o $(PROGRAMS)
OBJECTS := $(call object,$(LIB_SRC) $(ONEDNN_SRC) $(MPI_SRC) $(ZMQ_SRC) $(CURL_SRC) $(HWLOC_SRC) $(DATA_SRC) $(WHATIF_SRC) $(BOARD_SRC) $(LAUNCH_SRC) \
                         $(sort $(KERNEL_SRC) $(WORKER_SRC) $(RANK_SRC)) $(JUPYTER_SRC) kernel/crash_runtime/crash_runtime.c)
TESTS   := $(patsubst %.c,$(BUILD)/%,$(TEST_SRC))
SPEC    := $(BUILD)/share/jupyter/kernels/kolo/kernel.json

# ---- Building. BUILD is laid out as an installed prefix is: bin, include, lib, share. ----
build:  ## libkolo, kolorun, the kernel, the lessons' programs (V=1 shows commands)
build: $(BUILT) $(BUILD)/include $(BUILD)/lib/pkgconfig/kolo.pc $(SPEC) $(BUILD)/compile_commands.json

# Compiling also notes its command, for clangd and clang-tidy.
quote = $(subst ','\'',$(subst ",\",$(subst \,\\,$(1))))
note  = @printf '%s\n' '{"directory": "$(CURDIR)", "file": "$<", "command": "$(call quote,$(1))"}' >$(or $(2),$@).json
COMPILE_C   = $(CC) $(KOLO_C) $(CFLAGS) $(EXTRA) -MMD -MP -c $< -o $@
COMPILE_CXX = $(CXX) -std=gnu++17 -Wall -Wextra $(CFLAGS) -Ikernel -DKOLO_VERSION='"$(VERSION)"' -MMD -MP -c $< -o $@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	$(call say,CC)
	$(Q)$(COMPILE_C)
	$(call note,$(COMPILE_C))
$(call object,$(MPI_SRC)): EXTRA = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags ompi-c))

# The messages of tf.train.Example, by protobuf-c.
EXAMPLE := $(BUILD)/gen/data/example.pb-c
$(EXAMPLE).c $(EXAMPLE).h &: ext/data/example.proto $(BUILD)/flags
	$(call say,MAKE)
	$(Q)protoc-c --c_out=$(BUILD)/gen -Iext data/example.proto
$(EXAMPLE).o: $(EXAMPLE).c
	$(call say,CC)
	$(Q)$(CC) $(KOLO_C) $(CFLAGS) -I$(BUILD)/gen -c $< -o $@
$(call object,$(wildcard ext/data/tfrecord*.c)): EXTRA = -I$(BUILD)/gen
$(call object,$(wildcard ext/data/tfrecord*.c)): | $(EXAMPLE).h

# A function that no source defines is an error where a library is linked, not in each program that is linked with it.
SHARED := -shared -Wl,-z,defs
LIBKOLO_LIBS := -pthread -ldl -lm -lz -llzma -lzip -lcsv -lprotobuf-c -ljansson
# What the headers of ext/include name is of version KOLO_0, the interface; the rest, which plugins, tests and seams of
# one's own use, of KOLO_PRIVATE_0, and may change with every release. A program may have functions of those names: the
# library calls its own (-Bsymbolic-functions).
$(BUILD)/libkolo.map: $(wildcard ext/include/*.h) $(BUILD)/flags
	$(Q){ echo 'KOLO_0 { global:'; grep -oh 'kolo_[a-z0-9_]*' $(filter %.h,$^) | sort -u | sed 's/$$/;/'; \
	    echo '}; KOLO_PRIVATE_0 { global: kolo_[a-z]*; local: *; };'; } >$@
$(LIBKOLO): $(call object,$(LIB_SRC)) $(EXAMPLE).o $(BUILD)/libkolo.map $(BUILD)/sources
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(SHARED) -o $@ $(filter %.o,$^) -Wl,--version-script=$(BUILD)/libkolo.map -Wl,-soname,libkolo.so -Wl,-Bsymbolic-functions -Wl,-rpath,'$$ORIGIN' $(LIBKOLO_LIBS)
$(BUILD)/lib/libkolo_onednn.so: $(call object,$(ONEDNN_SRC)) $(LIBKOLO)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(SHARED) -o $@ $(filter %.o,$^) -L$(@D) -lkolo -Wl,-rpath,'$$ORIGIN' -ldnnl -fopenmp -lm
$(BUILD)/lib/libkolo_mpi.so: $(call object,$(MPI_SRC)) $(LIBKOLO)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(SHARED) -o $@ $(filter %.o,$^) -L$(@D) -lkolo -Wl,-rpath,'$$ORIGIN' -lmpi -lm
$(BUILD)/lib/libkolo_zmq.so: $(call object,$(ZMQ_SRC)) $(LIBKOLO)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(SHARED) -o $@ $(filter %.o,$^) -L$(@D) -lkolo -Wl,-rpath,'$$ORIGIN' -lzmq
$(BUILD)/lib/libkolo_curl.so: $(call object,$(CURL_SRC)) $(LIBKOLO)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(SHARED) -o $@ $(filter %.o,$^) -L$(@D) -lkolo -Wl,-rpath,'$$ORIGIN' -lcurl -lcrypto -pthread
$(BUILD)/lib/libkolo_hwloc.so: $(call object,$(HWLOC_SRC)) $(LIBKOLO)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(SHARED) -o $@ $(filter %.o,$^) -L$(@D) -lkolo -Wl,-rpath,'$$ORIGIN' -lhwloc
$(BUILD)/bin/kolo-data: $(call object,$(DATA_SRC)) $(LIBKOLO)
$(BUILD)/bin/kolo-what-if: $(call object,$(WHATIF_SRC)) $(LIBKOLO)
$(BUILD)/bin/kolo-data $(BUILD)/bin/kolo-what-if:
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) -o $@ $(filter %.o,$^) -L$(BUILD)/lib -lkolo -Wl,-rpath,'$$ORIGIN/../lib'
$(BUILD)/bin/kolorun: $(call object,$(LAUNCH_SRC))
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ -ljansson -pthread

$(BUILD)/bin/kolo-board: $(call object,$(BOARD_SRC))
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ -lmicrohttpd -lcurl -ljansson

# The kernel: C, but for Jupyter's protocol, which is C++ (xeus's messages over ZeroMQ). The worker runs the learner's
# code and links nothing but the C library.
LLVM := /usr/lib/llvm-19
$(call object,$(sort $(KERNEL_SRC) $(WORKER_SRC) $(RANK_SRC))): EXTRA = -Ikernel -isystem $(LLVM)/include
# A library may have functions of the same names: it calls its own.
$(call object,$(filter-out $(WORKER_SRC) $(RANK_SRC),$(KERNEL_SRC))): EXTRA += -fvisibility=hidden
$(BUILD)/obj/kernel/jupyter/%.o: kernel/jupyter/%.cpp $(BUILD)/flags
	$(call say,CXX)
	$(Q)$(COMPILE_CXX)
	$(call note,$(COMPILE_CXX))
$(BUILD)/bin/kolo-kernel: $(call object,$(KERNEL_SRC) $(JUPYTER_SRC))
	$(call say,LINK)
	$(Q)$(CXX) $(CFLAGS) -o $@ $^ -lxeus -lzmq -lcrypto -luuid -ljansson -L$(LLVM)/lib -lclang-19 -pthread
# A sanitizer's runtime calls these before it is ready for what it has built into others.
$(BUILD)/obj/kernel/worker/limits.o: EXTRA += -fno-sanitize=all
# What cells and their libraries see of it, beside the calls that stand in front of the C library's (the linker exports
# those by itself): any other name of the worker's would be taken for a learner's or a library's own.
# All is bound at the start: a handler of a fault cannot bind in memory that a cell has written over.
WORKER_SEEN = $(patsubst %,-Wl$(comma)--export-dynamic-symbol='%',kolo_cell_* __ubsan_handle_* MPI_* ompi_mpi_* atexit at_quick_exit pthread_atfork _edata _end)
$(BUILD)/bin/kolo-worker: $(call object,$(WORKER_SRC))
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(WORKER_SEEN) -Wl,-z,now -o $@ $^ -ldl -lm -pthread

# Linked into the programs of %%run.
$(BUILD)/obj/kernel/crash_runtime/crash_runtime.o: EXTRA = -Ikernel -fPIE -fno-lto -fno-sanitize=all
$(BUILD)/lib/kolo-crash-runtime.o: $(BUILD)/obj/kernel/crash_runtime/crash_runtime.o
	@mkdir -p $(@D)
	$(Q)cp $< $@

# A rank's own kernel: no compiler, no Jupyter.
$(BUILD)/bin/kolo-rank: $(call object,$(RANK_SRC))
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ -lzmq -ljansson -pthread

include ext/backend/cuda/rules.mk

# A program of a lesson is built from its own folder's source alone, as a reader's would be.
COMPILE_PROGRAM = $(CC) -std=gnu17 $(WARN) $(STRICT) $(CFLAGS) -I$(BUILD)/include
define program
$(BUILD)/bin/$(notdir $(basename $(1))): $(1) $(LIBKOLO) $(BUILD)/flags | $(BUILD)/include
	$$(call say,CC)
	$$(Q)$$(COMPILE_PROGRAM) -MMD -MP -MF $(BUILD)/obj/$$(@F).d $$< -o $$@ -L$(BUILD)/lib -lkolo -lm -Wl,-rpath,'$$$$ORIGIN/../lib'
	$$(call note,$$(COMPILE_PROGRAM) -c $$<,$(BUILD)/obj/$$(@F))
endef
$(foreach source,$(PROGRAM_SRC),$(eval $(call program,$(source))))

$(BUILD)/include: $(wildcard ext/include/*.h) | $(BUILD)/flags
	$(Q)rm -rf $@; mkdir -p $@ && ln -sfn $(abspath $(wildcard ext/include/*.h)) $@/ && ln -sfn $(abspath ext) $@/kolo
$(BUILD)/lib/pkgconfig/kolo.pc: ext/kolo.pc.in $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)sed 's|@PREFIX@|$(abspath $(BUILD))|; s|@VERSION@|$(VERSION)|' $< >$@
$(SPEC): kernel/kernelspec/kernel.json $(BUILD)/flags
	$(Q)dockerfiles/setup.sh kernelspec $(abspath $(BUILD))/bin $(BUILD)/share/jupyter/kernels
$(BUILD)/compile_commands.json: $(OBJECTS) $(PROGRAMS)
	$(Q){ echo '['; cat $(patsubst $(BUILD)/bin/%,$(BUILD)/obj/%.json,$(OBJECTS:=.json) $(PROGRAMS)) | sed '$$!s/$$/,/'; echo ']'; } >$@

FLAGS = $(CC) $(CXX) $(KOLO_C) $(CFLAGS) $(VERSION) $(CURDIR)
# What a change of rebuilds everything. Its rule is also where a machine that cannot build is told so.
$(BUILD)/flags: FORCE
	$(Q)BUILD=$(BUILD) dockerfiles/setup.sh check
	@mkdir -p $(BUILD)/obj
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' >$@
# A source that is gone changes no object, but what is linked.
$(BUILD)/sources: FORCE
	@mkdir -p $(BUILD)
	@echo '$(LIB_SRC)' | cmp -s - $@ || echo '$(LIB_SRC)' >$@
FORCE:

# ---- Using it. ----
setup:  ## install Debian's packages and .venv, and build; needs no network the second time
	$(Q)dockerfiles/setup.sh packages
	$(Q)$(MAKE) build
	$(Q)dockerfiles/setup.sh venv
	$(Q)dockerfiles/setup.sh kernelspec $(abspath $(BUILD))/bin .venv/share/jupyter/kernels

lab: setup  ## setup, then JupyterLab at Start_Here.ipynb (PORT=8888, NO_BROWSER=1)
	@exec env PORT=$(PORT) NO_BROWSER=$(NO_BROWSER) dockerfiles/lab.sh

install: build  ## put kolo into PREFIX=/usr/local: bin, lib, include, pkg-config, kernelspec (DESTDIR)
	$(Q)install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin include lib/pkgconfig)
	$(Q)install -m 755 $(wildcard $(BUILD)/bin/kolo*) $(DESTDIR)$(PREFIX)/bin
	$(Q)install -m 644 $(wildcard ext/include/*.h) $(DESTDIR)$(PREFIX)/include
	$(Q)for folder in core show losses optimizers link comm plan layers backend runtime data model topology engine \
            strategy replica training; do \
	    install -D -m 644 -t $(DESTDIR)$(PREFIX)/include/kolo/$$folder ext/$$folder/*.h; done
	$(Q)install -m 644 $(wildcard $(BUILD)/lib/*.so) $(BUILD)/lib/kolo-crash-runtime.o $(DESTDIR)$(PREFIX)/lib
	$(Q)sed 's|@PREFIX@|$(abspath $(PREFIX))|; s|@VERSION@|$(VERSION)|' ext/kolo.pc.in \
	    >$(DESTDIR)$(PREFIX)/lib/pkgconfig/kolo.pc
	$(Q)dockerfiles/setup.sh kernelspec $(abspath $(PREFIX))/bin $(DESTDIR)$(PREFIX)/share/jupyter/kernels

hub: setup  ## JupyterHub for a class, in .hub; see dockerfiles/CLASS.md
	$(Q)dockerfiles/setup.sh hub

# Debian's tools want debian/ at the top, so the sources that git knows are copied into a folder of their own.
DEB := $(BUILD)/deb
deb:  ## Debian packages in build/deb: libkolo, libkolo-dev, kolorun, kolo-kernel, kolo-lessons
	$(Q)dockerfiles/setup.sh deb $(abspath $(DEB))

data: build  ## fetch MNIST, Fashion-MNIST, CIFAR-10 and HIGGS into KOLO_DATA, or ~/.cache/kolo (SET=mnist)
	$(Q)$(BUILD)/bin/kolo-data $(SET)

# ---- Testing and tending. ----
$(filter-out $(SHIM_TESTS),$(TESTS)): $(BUILD)/%: %.c $(LIBKOLO)
	$(call say,CC)
	$(Q)$(CC) $(KOLO_C) $(CFLAGS) $(EXTRA) -D_GNU_SOURCE= -Itests -MMD -MP $< $(filter %.o,$^) -o $@ \
	    -L$(BUILD)/lib -lkolo -lcmocka -lm -lz -llzma -ljansson $(LIBRARIES) -Wl,-rpath,$(abspath $(BUILD)/lib)
# Tests of kolorun's parts are linked with them; main stays out.
$(filter $(BUILD)/tests/ext/launch/%,$(TESTS)): $(call object,$(filter-out %/main.c %/kolorun.c,$(LAUNCH_SRC)))

# The parts of the kernel that these tests are about need nothing else of it.
$(BUILD)/tests/ext/board/ring_test: $(call object,$(addprefix ext/board/,ring.c state.c))
$(filter $(BUILD)/tests/kernel/%,$(TESTS)): EXTRA = -Ikernel
$(BUILD)/tests/kernel/cells/split_test: $(call object,$(addprefix kernel/cells/,text.c lexer.c split.c declare.c))
$(BUILD)/tests/kernel/worker/protocol_test: $(call object,kernel/worker/protocol.c kernel/exit_status.c)
$(BUILD)/tests/kernel/ranks/wire_test: $(call object,kernel/ranks/wire.c kernel/cells/text.c)
$(BUILD)/tests/kernel/ranks/wire_test: LIBRARIES = -lzmq
$(BUILD)/tests/kernel/session_test: $(call object,$(KERNEL_SRC)) $(BUILD)/bin/kolo-worker
$(BUILD)/tests/kernel/session_test: LIBRARIES = -L$(LLVM)/lib -lclang-19 -lzmq
$(BUILD)/tests/kernel/debug/adapter_test: $(call object,kernel/debug/adapter.c kernel/cells/text.c)

$(BUILD)/tests/kernel/diagnostics/standard_test: EXTRA = -Ikernel -isystem $(LLVM)/include
$(BUILD)/tests/kernel/diagnostics/standard_test: LIBRARIES = -L$(LLVM)/lib -lclang-19
$(BUILD)/tests/kernel/diagnostics/standard_test: $(call object,$(addprefix kernel/,diagnostics/standard.c cells/analyser.c \
    cells/text.c cells/lexer.c))
$(BUILD)/tests/kernel/diagnostics/distributed_test: EXTRA = -Ikernel -isystem $(LLVM)/include
$(BUILD)/tests/kernel/diagnostics/distributed_test: $(call object,$(addprefix kernel/,diagnostics/distributed.c diagnostics/add.c \
    $(addprefix cells/,text.c lexer.c split.c declare.c symbols.c)))

# A test that does not compile is a failed test: -k, and the runner finds its program missing. exec, so that a signal to
# make reaches the runner, which then lists what it did not reach.
test:  ## set up, then the tests, in some minutes; all those under SUITE=ext/comm, long ones too (MINUTES=20 ends it)
test-long:  ## set up, then the tests that take longer (MINUTES=40 ends it)
test test-long: setup
	-$(Q)$(MAKE) -k tests
	@exec env KOLO_BUILD=$(abspath $(BUILD)) .venv/bin/python tests/run $(if $(SUITE),,--part $(if $(filter test,$@),short,long)) \
	    $(if $(MINUTES),--minutes $(MINUTES)) $(SUITE)
tests: $(TESTS) $(BUILT)

labs: setup  ## execute every notebook in full, and save it with its outputs
	@KOLO_BUILD=$(abspath $(BUILD)) .venv/bin/python tests/labs/execute.py --in-place \
	    Start_Here.ipynb $(wildcard labs/*.ipynb labs/solutions/*.ipynb)

bench: setup  ## how fast it is here, beside others found here (PEERS=1 LONG=1 NAMES='cnn/fp32 long/cifar' RECORD=1)
	@KOLO_BUILD=$(abspath $(BUILD)) .venv/bin/python tests/bench/run.py $(if $(PEERS),--peers) $(if $(LONG),--long) \
	    $(if $(RECORD),--record) $(NAMES)

bench-gpu: build cuda  ## how fast it is on a GPU, beside PyTorch and JAX found here (NAMES='cnn/bf16' RECORD=1)
	@KOLO_BUILD=$(abspath $(BUILD)) python3 tests/bench/gpu/bench.py $(if $(RECORD),--record) $(NAMES)

launches: build $(BUILD)/shim/lib/libkolo_cuda.so  ## what a training step gives a GPU and moves there, counted without one (NAMES='gpt/bf16/256' ALL=1)
	@KOLO_BUILD=$(abspath $(BUILD)) python3 tests/bench/gpu/launches.py $(if $(ALL),--all) $(NAMES)

carry: build cuda $(SHIM_TESTS)  ## build/carry: what a machine with a GPU and nothing else needs; there tests/gpu/session.sh
	$(Q)tests/gpu/carry.sh $(BUILD)/carry $(BUILD) $(BUILD)/lib/libkolo_cuda.so $(SHIM_TESTS)

# Fuzzers, clang's: of what reads a learner's text, and of what reads files. What they search is built for them, the
# rest is as it is.
FUZZED_SRC   := $(wildcard kernel/cells/*.c kernel/diagnostics/*.c kernel/magics/*.c) kernel/help/help.c
FUZZED_LIB   := $(wildcard ext/data/*.c ext/layers/*.c ext/link/*.c ext/saving/*.c) \
                $(filter-out ext/whatif/main.c,$(wildcard ext/whatif/*.c)) ext/show/trace.c \
                $(addprefix ext/core/,crc32c.c utf8.c) $(addprefix ext/model/,model.c graph.c)
FUZZ_RUNTIME := $(LLVM)/lib/clang/19/lib/linux/libclang_rt.fuzzer-$(shell uname -m).a
KERNEL_FUZZ  := $(wildcard tests/kernel/fuzz/*_fuzz.c)
LIB_FUZZ     := $(wildcard tests/ext/*/fuzz/*_fuzz.c)
FUZZERS      := $(addprefix $(BUILD)/fuzz/,$(notdir $(basename $(KERNEL_FUZZ) $(LIB_FUZZ))))
FUZZ_FLAGS   := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
fuzz-object   = $(patsubst %.c,$(BUILD)/fuzz/obj/%.o,$(1))
$(BUILD)/fuzz/obj/%.o: %.c $(BUILD)/flags | $(EXAMPLE).h
	$(call say,FUZZ)
	$(Q)clang-19 -std=gnu17 -pthread -Iext/include -Iext -Ikernel -I$(BUILD)/gen -isystem $(LLVM)/include $(FUZZ_FLAGS) \
	    -MMD -MP -c $< -o $@
$(BUILD)/fuzz/fuzzed.a: $(call fuzz-object,$(FUZZED_SRC))
$(BUILD)/fuzz/rest.a: $(call object,$(KERNEL_SRC))
$(BUILD)/fuzz/fuzzed_lib.a: $(call fuzz-object,$(FUZZED_LIB))
$(BUILD)/fuzz/rest_lib.a: $(call object,$(filter-out $(FUZZED_LIB),$(LIB_SRC))) $(EXAMPLE).o
$(BUILD)/fuzz/%.a:
	@mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $^
define fuzzer
$(BUILD)/fuzz/$(notdir $(basename $(1))): $(call fuzz-object,$(1)) $(BUILD)/fuzz/fuzzed$(2).a $(BUILD)/fuzz/rest$(2).a
	$$(call say,LINK)
	$$(Q)clang-19 -fsanitize=fuzzer,address,undefined -Wl,--start-group $$^ -Wl,--end-group -o $$@ $(3)
endef
$(foreach source,$(KERNEL_FUZZ),$(eval $(call fuzzer,$(source),,-L$(LLVM)/lib -lclang-19 -lzmq -ljansson -pthread)))
$(foreach source,$(LIB_FUZZ),$(eval $(call fuzzer,$(source),_lib,$(LIBKOLO_LIBS))))
fuzzers: $(FUZZERS)
tests: $(if $(wildcard $(FUZZ_RUNTIME)),$(FUZZERS))

soak: setup fuzzers  ## fuzz the kernel and the readers of files for MINUTES=30, and repeat the cells that try to break it
	@KOLO_BUILD=$(abspath $(BUILD)) .venv/bin/python tests/soak.py $(or $(MINUTES),30)

faults: setup  ## RUNS=200 jobs, each with a fault drawn by chance, must end as promised (SEED=1 draws the same again)
	@KOLO_BUILD=$(abspath $(BUILD)) .venv/bin/python tests/faults.py --runs $(or $(RUNS),200) $(if $(SEED),--seed $(SEED))

comma := ,
asan tsan: build-flags = -O1 -g -fno-omit-frame-pointer
asan: sanitizers = address,undefined -fno-sanitize-recover=undefined
tsan: sanitizers = thread
asan:  ## the C tests, and the kernel's, under gcc's address and undefined-behaviour sanitizers
tsan:  ## the C tests, and the kernel's, under gcc's thread sanitizer
asan tsan:
	$(Q)$(MAKE) -k BUILD=$(BUILD)-$@ CFLAGS='$(build-flags) -fsanitize=$(sanitizers)' FUZZ_RUNTIME= tests
	@KOLO_BUILD=$(abspath $(BUILD)-$@) /usr/bin/python3 tests/run --only-c --limit 600 $(SUITE)
	$(if $(SUITE),,@KOLO_BUILD=$(abspath $(BUILD)-$@) .venv/bin/python tests/kernel/sanitized.py $(firstword $(subst $(comma), ,$(sanitizers))))

SOURCES = $(shell find ext kernel source_code labs/course tests -name '*.[ch]' -o -name '*.cpp')
format:  ## lay out every source as .clang-format says
	$(Q)clang-format-19 -i $(SOURCES)
# clang has no _Float128, which value_number.c shows.
lint: build  ## clang-format and clang-tidy, without changing anything
	$(Q)clang-format-19 --dry-run -Werror $(SOURCES)
	$(Q)sed -n 's/.*"file": "\([^"]*\)".*/\1/p' $(BUILD)/compile_commands.json | grep -v value_number.c | \
	    xargs -P $$(nproc) -n 4 clang-tidy-19 -p $(BUILD) --quiet --warnings-as-errors='*'

clean:  ## remove what was built (.venv stays)
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan
help:  ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## *\(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-9s %s\n", $$1, $$2 }'

.PHONY: build setup lab hub deb data install test test-long tests labs bench bench-gpu launches carry fuzzers soak faults asan tsan format lint clean help FORCE
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
