/* Printing kolorun's sentences, each with one write(), so that sentences of several processes do not mix. */
#include "launch/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int launch_say(int code, const char *format, ...)
{
    char text[4096] = "kolorun: ";
    size_t start = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text + start, sizeof text - start - 1, format, arguments);
    va_end(arguments);
    if (length < 0) return code;
    size_t end = start + (size_t)length;
    if (end > sizeof text - 2) end = sizeof text - 2;
    text[end] = '\n';
    if (write(STDERR_FILENO, text, end + 1) < 0) return code; /* cannot be reported */
    return code;
}
