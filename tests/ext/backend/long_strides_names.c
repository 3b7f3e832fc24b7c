/* Of test_long_strides.py, loaded before oneDNN: calls oneDNN's own fast implementations "brgconv…", as some of those
 * of processors with AMX are called. What oneDNN prints (DNNL_VERBOSE=1) has the true names. */
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

dnnl_status_t dnnl_primitive_desc_query(const_dnnl_primitive_desc_t descriptor, dnnl_query_t what, int index,
                                        void *result)
{
    dnnl_status_t (*query)(const_dnnl_primitive_desc_t, dnnl_query_t, int, void *);
    *(void **)&query = dlsym(dlopen("libdnnl.so.2", RTLD_LAZY | RTLD_NOLOAD), "dnnl_primitive_desc_query");
    dnnl_status_t status = query(descriptor, what, index, result);
    const char **name = result;
    if (status == dnnl_success && what == dnnl_query_impl_info_str && strncmp(*name, "jit", 3) == 0)
        *name = "brgconv:jit";
    return status;
}
