/* The colours of messages, as sequences for a terminal. In JupyterLab a message stands on a ground of light or of dark
 * red. Its own bold red and green can hardly be read on the dark one, so red and magenta are from the palette of 256
 * colours, each with a contrast of 3:1 or more to both grounds. */
#ifndef KERNEL_COLOURS_H
#define KERNEL_COLOURS_H

#define RED     "\033[1;38;5;196m" /* #ff0000 */
#define MAGENTA "\033[1;38;5;164m" /* #d700d7 */
#define CYAN    "\033[1;36m"
#define BOLD    "\033[1m"
#define PLAIN   "\033[0m"

#endif
