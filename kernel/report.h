/* The error of a cell that did not return, here or at a rank. Read first: session.h, exit_status.h. */
#ifndef KERNEL_REPORT_H
#define KERNEL_REPORT_H

#include "exit_status.h"
#include "result.h"
#include "session.h"

result exit_status_result(session *s, const exit_status *e);
/* The error for an object that could not be loaded: `why` is the loader's message. */
result load_failure(const char *why);
/* "In[3]:2", the innermost line of a cell's among these frames, or NULL; the caller frees. */
char *place_of_frames(session *s, const char *frames, size_t size);

#endif
