# Kolo. `make help` lists what to ask for; `make lab` and `make test` are all that most people need.
BUILD    ?= build
CC       := gcc
CXX      := g++
CFLAGS   ?= -O2 -g
WARN     := -Wall -Wextra -Wpedantic -Wshadow -Wconversion
KOLO_C   := -std=gnu17 $(WARN) -fPIC -pthread -Iext/include -Iext -MMD -MP
RPATH    := -Wl,-rpath,'$$ORIGIN/../lib'

# Which sources make which part. The layout is the architecture: see CONTRIBUTING.md.
LIB_SRC      := $(wildcard ext/core/*.c ext/layers/*.c ext/data/*.c ext/strategy/*.c ext/show/*.c) \
                $(wildcard ext/backend/*.c ext/backend/reference/*.c) $(filter-out ext/comm/mpi.c ext/comm/nccl.c,$(wildcard ext/comm/*.c))
ONEDNN_SRC   := $(wildcard ext/backend/onednn/*.c)
MPI_SRC      := $(wildcard ext/comm/mpi.c)
LAUNCH_SRC   := $(wildcard ext/launch/*.c)
PROGRAM_SRC  := $(wildcard source_code/*/*.c)
TEST_SRC     := $(wildcard tests/ext/*_test.c tests/ext/*/*_test.c tests/ext/*/*/*_test.c)

object = $(patsubst %,$(BUILD)/obj/%.o,$(basename $(1)))
PROGRAMS := $(addprefix $(BUILD)/bin/,$(notdir $(basename $(PROGRAM_SRC))))
TESTS    := $(patsubst %.c,$(BUILD)/%,$(TEST_SRC))
LIBKOLO  := $(BUILD)/lib/libkolo.so

.PHONY: build
build: $(LIBKOLO) $(BUILD)/lib/libkolo_onednn.so $(BUILD)/lib/libkolo_mpi.so $(BUILD)/bin/kolorun $(PROGRAMS)

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(KOLO_C) $(CFLAGS) $(EXTRA) -c $< -o $@
$(call object,$(MPI_SRC)): EXTRA = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags ompi-c))

$(LIBKOLO): $(call object,$(LIB_SRC))
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $^ -Wl,-soname,libkolo.so -pthread -ldl -lm -lz -ljansson
$(BUILD)/lib/libkolo_onednn.so: $(call object,$(ONEDNN_SRC)) $(LIBKOLO)
	$(CC) -shared -o $@ $(call object,$(ONEDNN_SRC)) -L$(BUILD)/lib -lkolo -Wl,-rpath,'$$ORIGIN' -ldnnl -fopenmp -lm
$(BUILD)/lib/libkolo_mpi.so: $(call object,$(MPI_SRC)) $(LIBKOLO)
	$(CC) -shared -o $@ $(call object,$(MPI_SRC)) -L$(BUILD)/lib -lkolo -Wl,-rpath,'$$ORIGIN' -lmpi
$(BUILD)/bin/kolorun: $(call object,$(LAUNCH_SRC))
	@mkdir -p $(@D)
	$(CC) -o $@ $^ -pthread
$(PROGRAMS): $(BUILD)/bin/%: $(LIBKOLO)
	@mkdir -p $(@D)
	$(CC) -std=gnu17 $(WARN) -Iext/include $(CFLAGS) $(filter %/$*.c,$(PROGRAM_SRC)) -o $@ -L$(BUILD)/lib -lkolo -lm $(RPATH)
$(foreach p,$(PROGRAM_SRC),$(eval $(BUILD)/bin/$(notdir $(basename $(p))): $(p)))

$(TESTS): $(BUILD)/tests/%: tests/%.c $(LIBKOLO)
	@mkdir -p $(@D)
	$(CC) $(KOLO_C) $(CFLAGS) -Itests $< -o $@ -L$(BUILD)/lib -lkolo -lcmocka -lm -Wl,-rpath,$(abspath $(BUILD)/lib)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
