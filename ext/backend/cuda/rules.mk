# The CUDA plugin: `make cuda` where the toolkit is. And the same sources for a machine without a device, with the
# tests' shim in place of CUDA's libraries: $(BUILD)/shim/lib, which holds the rest of lib, too, is what a test puts
# before the library it was linked with.
CUDA_C  := $(wildcard ext/backend/cuda/*.c) ext/comm/nccl.c
CUDA_CU := $(wildcard ext/backend/cuda/*.cu)
SHIM    := tests/ext/backend/cuda/shim

# ---- For a device ----
CUDA_HOME  ?= /usr/local/cuda
CUDNN_HOME ?= $(CUDA_HOME)
NCCL_HOME  ?= $(CUDA_HOME)
NVCC       := $(CUDA_HOME)/bin/nvcc
# Machine code for Ampere, Hopper and Blackwell, and PTX for what comes after.
CUDA_CODE  ?= $(foreach sm,80 90 100,-gencode arch=compute_$(sm),code=sm_$(sm)) -gencode arch=compute_100,code=compute_100
CUDA_SEEN  := $(addprefix -isystem ,$(sort $(CUDA_HOME)/include $(CUDNN_HOME)/include $(NCCL_HOME)/include))
CUDA_FOUND := $(addprefix -L,$(sort $(foreach home,$(CUDA_HOME) $(CUDNN_HOME) $(NCCL_HOME),$(wildcard $(home)/lib $(home)/lib64))))
cuda-object = $(patsubst %,$(BUILD)/obj/cuda/%.o,$(notdir $(1)))

cuda: $(BUILD)/lib/libkolo_cuda.so  ## the plugin for GPUs, with the toolkit in CUDA_HOME (CUDNN_HOME, NCCL_HOME)
$(BUILD)/obj/cuda/%.c.o: ext/backend/cuda/%.c $(BUILD)/flags
	$(call say,CC)
	$(Q)$(CC) $(KOLO_C) $(CFLAGS) $(CUDA_SEEN) -MMD -MP -c $< -o $@
$(BUILD)/obj/cuda/%.c.o: ext/comm/%.c $(BUILD)/flags
	$(call say,CC)
	$(Q)$(CC) $(KOLO_C) $(CFLAGS) $(CUDA_SEEN) -MMD -MP -c $< -o $@
$(BUILD)/obj/cuda/%.cu.o: ext/backend/cuda/%.cu $(BUILD)/flags
	$(call say,NVCC)
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo -Xfatbin=-compress-all $(CUDA_CODE) --threads 0 -Xcompiler -fPIC -Iext $(CUDA_SEEN) -MMD -MP -c $< -o $@
$(BUILD)/lib/libkolo_cuda.so: $(call cuda-object,$(CUDA_C) $(CUDA_CU)) $(LIBKOLO)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) -shared -o $@ $(filter %.o,$^) -L$(@D) -lkolo -Wl,-rpath,'$$ORIGIN' $(CUDA_FOUND) $(CUDA_FOUND:-L%=-Wl,-rpath,%) -l:libcudnn.so.9 -lcublasLt -l:libnccl.so.2 -lcudart -lstdc++

# ---- For the host ----
shim-object = $(patsubst %,$(BUILD)/obj/shim/%.o,$(notdir $(1)))
SHIM_SRC   := $(wildcard $(SHIM)/*.cpp)
SHIM_CXX    = $(CXX) -std=gnu++17 -Wall -Wextra -Wno-psabi -Wno-unknown-pragmas $(CFLAGS) -fPIC -pthread -I$(SHIM) -Iext -MMD -MP
$(BUILD)/obj/shim/%.c.o: ext/backend/cuda/%.c $(BUILD)/flags
	$(call say,SHIM)
	$(Q)$(CC) $(KOLO_C) $(CFLAGS) -I$(SHIM) -MMD -MP -c $< -o $@
$(BUILD)/obj/shim/%.c.o: ext/comm/%.c $(BUILD)/flags
	$(call say,SHIM)
	$(Q)$(CC) $(KOLO_C) $(CFLAGS) -I$(SHIM) -MMD -MP -c $< -o $@
$(BUILD)/obj/shim/%.cu.o: ext/backend/cuda/%.cu $(BUILD)/flags
	$(call say,SHIM)
	$(Q)$(SHIM_CXX) -x c++ -c $< -o $@
$(BUILD)/obj/shim/%.cpp.o: $(SHIM)/%.cpp $(BUILD)/flags
	$(call say,SHIM)
	$(Q)$(SHIM_CXX) -c $< -o $@
SHIM_LIBS  := $(patsubst $(BUILD)/lib/%,$(BUILD)/shim/lib/%,$(filter $(BUILD)/lib/libkolo%.so,$(BUILT)))
$(SHIM_LIBS): $(BUILD)/shim/lib/%: $(BUILD)/lib/%
	@mkdir -p $(@D) && ln -sfn $(abspath $<) $@
# Where a driver's library is looked for, there is one.
$(BUILD)/shim/lib/libcuda.so.1:
	@mkdir -p $(@D) && ln -sfn libkolo_cuda.so $@
$(BUILD)/shim/lib/libkolo_cuda.so: $(BUILD)/shim/lib/libcuda.so.1
$(BUILD)/shim/lib/libkolo_cuda.so: $(call shim-object,$(CUDA_C) $(CUDA_CU) $(SHIM_SRC)) $(SHIM_LIBS)
	$(call say,LINK)
	$(Q)$(CXX) $(CFLAGS) -shared -o $@ $(filter %.o,$^) -L$(@D) -lkolo -Wl,-rpath,'$$ORIGIN' -pthread
# What tests/ext/backend has, of this backend.
SHIM_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/ext/backend/cuda/*_test.c))
$(SHIM_TESTS): $(BUILD)/%: %.c $(BUILD)/shim/lib/libkolo_cuda.so
	$(call say,CC)
	$(Q)$(CC) $(KOLO_C) $(CFLAGS) -DKOLO_TEST_BACKEND='"cuda"' -Itests -MMD -MP $< -o $@ \
	    -L$(BUILD)/shim/lib -lkolo -lcmocka -lm -ljansson -Wl,-rpath,$(abspath $(BUILD)/shim/lib)
.PHONY: cuda
