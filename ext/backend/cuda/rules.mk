# The CUDA plugin: `make cuda` where the toolkit is. And the same sources for a machine without a device, with the
# tests' shim in place of CUDA's libraries: $(BUILD)/shim/lib, which holds the rest of lib, too, is what a test puts
# before the library it was linked with.
CUDA_C  := $(wildcard ext/backend/cuda/*.c)
CUDA_CU := $(wildcard ext/backend/cuda/*.cu)
SHIM    := tests/ext/backend/cuda/shim
SHIM_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/ext/backend/cuda/*.c))

# ---- Where CUDA is ----
# The toolkit: CUDA_HOME, else where it is usually. cuDNN 9 and NCCL 2: CUDNN_HOME and NCCL_HOME, folders with include
# and lib; else the toolkit's, Debian's, or those of a Python environment (the active one, or python3's), whose wheels
# bring their headers. `make toolkit` fetches all three into .cuda, which comes first.
TRIPLET     := $(shell uname -m)-linux-gnu
PYTHON_CUDA := $(wildcard $(CURDIR)/.cuda/nvidia $(addsuffix /lib/python3*/*-packages/nvidia,$(VIRTUAL_ENV) $(CONDA_PREFIX) \
                   $(patsubst %/bin/python3,%,$(shell command -v python3)) /usr/local $(HOME)/.local))
# The first of the folders $(2) that has the header $(1).
with-header  = $(firstword $(foreach home,$(2),$(if $(wildcard $(home)/include/$(1) $(home)/include/$(TRIPLET)/$(1)),$(home))))
NVCC        := $(firstword $(wildcard $(addsuffix /bin/nvcc,$(or $(CUDA_HOME),$(CURDIR)/.cuda/nvidia/cu13 /usr/local/cuda \
                   $(CONDA_PREFIX) /opt/cuda))) $(if $(CUDA_HOME),,$(shell command -v nvcc)))
CUDA_FOUND  := $(patsubst %/bin/nvcc,%,$(NVCC))
CUDNN_FOUND := $(call with-header,cudnn.h,$(or $(CUDNN_HOME),$(CUDA_FOUND) $(CUDA_FOUND:%/cu13=%/cudnn) /usr /usr/local $(CONDA_PREFIX) $(PYTHON_CUDA:%=%/cudnn)))
NCCL_FOUND  := $(call with-header,nccl.h,$(or $(NCCL_HOME),$(CUDA_FOUND) $(CUDA_FOUND:%/cu13=%/nccl) /usr /usr/local $(CONDA_PREFIX) $(PYTHON_CUDA:%=%/nccl)))
CUDA_PLACES := $(filter-out /usr,$(sort $(abspath $(CUDA_FOUND) $(CUDNN_FOUND) $(NCCL_FOUND))))
CUDA_SEEN   := $(addprefix -isystem ,$(wildcard $(addsuffix /include,$(CUDA_PLACES))))
CUDA_LIBS   := $(sort $(wildcard $(foreach home,$(CUDA_PLACES),$(home)/lib $(home)/lib64 $(home)/targets/*/lib)))
# Machine code for Volta (which CUDA 13 has dropped), Turing, Ampere, Hopper and Blackwell, as far as this nvcc knows them,
# and PTX for what comes after.
CUDA_KNOWN   = $(if $(NVCC),$(filter $(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch)),70 75 80 90 100))
CUDA_CODE   ?= $(foreach sm,$(CUDA_KNOWN),-gencode arch=compute_$(sm),code=sm_$(sm)) \
               $(foreach sm,$(lastword $(CUDA_KNOWN)),-gencode arch=compute_$(sm),code=compute_$(sm))
# What is lacking, $(1), part of $(2), and where it was looked for: in the folder that the variable $(3) names.
lacks        = '$(1) ($(2)), which is not in $(if $($(3)),$(3)=$($(3)),the usual places: set $(3) to its folder, or run make toolkit)'
CUDA_LACKS  := $(strip $(if $(NVCC),,$(call lacks,nvcc,CUDA toolkit 12 or 13,CUDA_HOME)) \
               $(if $(CUDNN_FOUND),,$(call lacks,cudnn.h,cuDNN 9,CUDNN_HOME)) $(if $(NCCL_FOUND),,$(call lacks,nccl.h,NCCL 2,NCCL_HOME)))

# ---- For a device ----
cuda-object = $(patsubst %,$(BUILD)/obj/cuda/%.o,$(notdir $(1)))
toolkit:  ## CUDA's compiler, cuDNN and NCCL from PyPI into .cuda, 2 GB, where make cuda finds them (after make setup)
	$(Q)dockerfiles/setup.sh cuda

cuda: $(BUILD)/lib/libkolo_cuda.so  ## the plugin for GPUs, where the toolkit is (CUDA_HOME, CUDNN_HOME, NCCL_HOME)
# What a change of compiles it anew; and where a machine is told what it lacks.
$(BUILD)/obj/cuda/flags: FORCE
	$(if $(CUDA_LACKS),@printf 'kolo: the plugin for GPUs wants %s\n' $(CUDA_LACKS) >&2; exit 1)
	@mkdir -p $(@D); echo '$(NVCC) $(CUDA_CODE) $(CUDA_SEEN) $(CUDA_LIBS)' | cmp -s - $@ || \
	    echo '$(NVCC) $(CUDA_CODE) $(CUDA_SEEN) $(CUDA_LIBS)' >$@
$(BUILD)/obj/cuda/%.c.o: ext/backend/cuda/%.c $(BUILD)/flags $(BUILD)/obj/cuda/flags
	$(call say,CC)
	$(Q)$(CC) $(KOLO_C) $(CFLAGS) $(CUDA_SEEN) -MMD -MP -c $< -o $@
$(BUILD)/obj/cuda/%.cu.o: ext/backend/cuda/%.cu $(BUILD)/flags $(BUILD)/obj/cuda/flags
	$(call say,NVCC)
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo -Xfatbin=-compress-all $(CUDA_CODE) --threads 0 -Xcompiler -fPIC -Iext $(CUDA_SEEN) -MMD -MP -c $< -o $@
# PTX alone, which tests/ext/backend/cuda/test_machine_code.py gives to ptxas: NAME.90.ptx is NAME.cu's for compute_90.
define ptx-rule
$$(BUILD)/obj/cuda/%.$(1).ptx: ext/backend/cuda/%.cu $$(BUILD)/flags $$(BUILD)/obj/cuda/flags
	$$(call say,PTX)
	$$(Q)$$(NVCC) -std=c++17 -O3 -arch=compute_$(1) -Iext $$(CUDA_SEEN) -MMD -MP -ptx $$< -o $$@
endef
$(foreach architecture,70 75 80 90 100,$(eval $(call ptx-rule,$(architecture))))
cuda-ptx: $(foreach architecture,$(PTX),$(CUDA_CU:ext/backend/cuda/%.cu=$(BUILD)/obj/cuda/%.$(architecture).ptx))
nvcc-path:
	@echo $(NVCC)
$(BUILD)/lib/libkolo_cuda.so: $(call cuda-object,$(CUDA_C) $(CUDA_CU)) $(LIBKOLO)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) -shared -o $@ $(filter %.o,$^) -L$(@D) -lkolo -Wl,-rpath,'$$ORIGIN' $(CUDA_LIBS:%=-L%) \
	    $(CUDA_LIBS:%=-Wl,-rpath,%) -l:libcudnn.so.9 -lcublasLt -l:libnccl.so.2 -lcudart -lstdc++
tests: $(if $(CUDA_LACKS)$(findstring -fsanitize,$(CFLAGS)),,cuda) $(SHIM_TESTS)

test-gpu: build cuda $(SHIM_TESTS)  ## the tests that need a GPU, on a GPU (UNDER='compute-sanitizer --tool racecheck')
	@KOLO_BUILD=$(abspath $(BUILD)) python3 tests/run --gpu $(if $(UNDER),--under '$(UNDER)')

# ---- For the host ----
shim-object = $(patsubst %,$(BUILD)/obj/shim/%.o,$(notdir $(1)))
SHIM_SRC   := $(wildcard $(SHIM)/*.cpp $(SHIM)/*.cu)
SHIM_CXX    = $(CXX) -std=gnu++17 -Wall -Wextra -Wno-psabi -Wno-unknown-pragmas $(CFLAGS) -fPIC -pthread -I$(SHIM) -Iext -MMD -MP
$(BUILD)/obj/shim/%.c.o: ext/backend/cuda/%.c $(BUILD)/flags
	$(call say,SHIM)
	$(Q)$(CC) $(KOLO_C) $(CFLAGS) -I$(SHIM) -MMD -MP -c $< -o $@
# What kernels do in memory is looked at (checks.cpp of the shim), unless the build has a sanitizer of its own.
SHIM_LOOKS  = $(if $(findstring -fsanitize,$(CFLAGS)),,-fsanitize=thread -Wno-tsan)
$(BUILD)/obj/shim/%.cu.o: ext/backend/cuda/%.cu $(BUILD)/flags
	$(call say,SHIM)
	$(Q)$(SHIM_CXX) $(SHIM_LOOKS) -x c++ -c $< -o $@
$(BUILD)/obj/shim/%.cu.o: $(SHIM)/%.cu $(BUILD)/flags
	$(call say,SHIM)
	$(Q)$(SHIM_CXX) $(SHIM_LOOKS) -x c++ -c $< -o $@
$(BUILD)/obj/shim/%.cpp.o: $(SHIM)/%.cpp $(BUILD)/flags
	$(call say,SHIM)
	$(Q)$(SHIM_CXX) -DKOLO_SHIM_INSIDE -c $< -o $@
# It has functions of a sanitizer's names, which a sanitized build would take for its own.
$(BUILD)/obj/shim/checks.cpp.o: SHIM_CXX += -fno-sanitize=all
SHIM_LIBS  := $(patsubst $(BUILD)/lib/%,$(BUILD)/shim/lib/%,$(filter $(BUILD)/lib/libkolo%.so,$(BUILT)))
$(SHIM_LIBS): $(BUILD)/shim/lib/%: $(BUILD)/lib/%
	@mkdir -p $(@D) && ln -sfn $(abspath $<) $@
# Where a driver's libraries are looked for, there is one.
SHIM_DRIVER := $(addprefix $(BUILD)/shim/lib/,libcuda.so.1 libnvidia-ml.so.1)
$(SHIM_DRIVER):
	@mkdir -p $(@D) && ln -sfn libkolo_cuda.so $@
$(BUILD)/shim/lib/libkolo_cuda.so: $(SHIM_DRIVER)
$(BUILD)/shim/lib/libkolo_cuda.so: $(call shim-object,$(CUDA_C) $(CUDA_CU) $(SHIM_SRC)) $(SHIM_LIBS)
	$(call say,LINK)
	$(Q)$(CXX) $(CFLAGS) -shared -o $@ $(filter %.o,$^) -L$(@D) -lkolo -Wl,-rpath,'$$ORIGIN' -pthread
# What tests/ext/backend has, of this backend; test-gpu puts the real plugin before the shim's.
$(SHIM_TESTS): $(BUILD)/%: %.c $(BUILD)/shim/lib/libkolo_cuda.so
	$(call say,CC)
	$(Q)$(CC) $(KOLO_C) $(CFLAGS) $(EXTRA) -D_GNU_SOURCE= -DKOLO_TEST_BACKEND='"cuda"' -Itests -MMD -MP $< -o $@ \
	    -L$(BUILD)/shim/lib -lkolo -lcmocka -lm -ljansson -Wl,-rpath,$(abspath $(BUILD)/shim/lib)
$(BUILD)/tests/ext/backend/cuda/cudnn_plans_test: EXTRA = -I$(SHIM)
.PHONY: toolkit cuda cuda-ptx nvcc-path test-gpu
