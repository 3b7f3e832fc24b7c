/* The session's folder for temporary files. It goes with the session; one whose kernel and supervisor were both killed
 * is swept up by the next kernel that starts. */
#ifndef KERNEL_FOLDER_H
#define KERNEL_FOLDER_H

/* A new folder below $XDG_RUNTIME_DIR or /tmp, locked while this process lives. NULL: none can be made. */
char *folder_make(void);
/* Deletes a folder with all that is in it. */
void folder_remove(const char *path);
/* Deletes a session's folder, and what the session and its ranks had elsewhere. */
void folder_remove_session(const char *folder);

#endif
