/* lldb-dap at the other end of a socket: sends it requests of the Debug Adapter Protocol and hands on its events. One
 * thread reads and another delivers events, so that a receiver of an event may send requests. Read first:
 * worker/protocol.h. */
#ifndef KERNEL_DEBUG_ADAPTER_H
#define KERNEL_DEBUG_ADAPTER_H

#include <jansson.h>
#include <stdbool.h>

typedef struct adapter adapter;

/* Called on the adapter's own thread, one event after the other. The event is the adapter's. */
typedef void (*adapter_event)(void *closure, adapter *from, json_t *event);

/* Takes the socket over. NULL when no thread can be had. */
adapter *adapter_open(int socket, adapter_event deliver, void *closure);
/* Hangs up (lldb-dap ends, its process goes on) and frees. Not to be called from `deliver`. */
void adapter_close(adapter *a);
/* lldb-dap has gone, or the adapter is being closed. */
bool adapter_gone(const adapter *a);

/* Sends a request, which takes over `arguments` (NULL: none), and waits for its response: the caller's, or NULL when
 * none came within `seconds`: lldb-dap is then given up, and what it debugs goes on without it. Any thread. */
json_t *adapter_ask(adapter *a, const char *command, json_t *arguments, double seconds);

/* Stops the process without anybody hearing of it, and lets it run again. False when it does not stop in time. */
bool adapter_freeze(adapter *a);
void adapter_thaw(adapter *a);

#endif
