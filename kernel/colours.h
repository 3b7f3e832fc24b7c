/* The colours of messages. JupyterLab shows errors and stderr on a red ground, pale in its light theme and dark in its
 * dark one. These three have a contrast of 3:1 or more on both; in the dark theme its bold basic colours have 2:1. What
 * must be read, and not only recognised, is bold and has the theme's own colour. */
#ifndef KERNEL_COLOURS_H
#define KERNEL_COLOURS_H

#define RED     "\033[1;38;5;196m"
#define MAGENTA "\033[1;38;5;164m"
#define CYAN    "\033[1;36m"
#define BOLD    "\033[1m"
#define PLAIN   "\033[0m"

#endif
