/* PATH, in which commands are searched. */
#ifndef KERNEL_SEARCH_PATH_H
#define KERNEL_SEARCH_PATH_H

/* Where an executable of that name is, by PATH; NULL: nowhere. The caller frees. */
char *in_path(const char *name);

#endif
