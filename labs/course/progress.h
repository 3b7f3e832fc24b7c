/* Which checks of the course the learner has passed: a small JSON file, {"passed": {"1.a": true, "1.quiz": true}}.
 *
 * It is the file that the environment variable KOLO_PROGRESS names, or else ~/.local/share/kolo/progress.json. Included
 * by course.h. */
#ifndef COURSE_PROGRESS_H
#define COURSE_PROGRESS_H

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The lessons in their order, and the letters of their exercises: "ab" stands for 1.a and 1.b. */
typedef struct course_lesson {
    const char *number, *title, *exercises;
} course_lesson;

static const course_lesson course_lessons[] = {
    {"1", "Introduction", "ab"},
    {"2.1", "System topology", "ab"},
    {"2.2", "Collectives", "ab"},
    {"3", "Hands-on distributed training", "ab"},
    {"4", "Convergence", "ab"},
    {"5", "Feeding the devices", "ab"},
    {"6", "Asynchronous training", "ab"},
    {"7", "Beyond one node", "ab"},
    {"8", "Challenge", "ab"},
};
#define COURSE_LESSONS ((int)(sizeof course_lessons / sizeof *course_lessons))

/* Writes the file's name to path[size]. False if it does not fit, or if there is no home folder. */
static inline bool course_progress_path(char *path, size_t size)
{
    const char *own = getenv("KOLO_PROGRESS"), *home = getenv("HOME");
    int length = -1;
    if (own && *own) length = snprintf(path, size, "%s", own);
    else if (home && *home) length = snprintf(path, size, "%s/.local/share/kolo/progress.json", home);
    return length >= 0 && (size_t)length < size;
}

/* The file's object; a new one if there is no file yet; NULL, after a sentence, if the file holds anything else. The
 * caller frees it with json_decref(). */
static inline json_t *course_progress_read(const char *path)
{
    if (access(path, F_OK) != 0) return json_pack("{s:{}}", "passed");
    json_error_t error;
    json_t *all = json_load_file(path, 0, &error);
    if (json_is_object(json_object_get(all, "passed"))) return all;
    printf("%s does not hold the course's progress (%s). Move it away, and the course begins a new one.\n", path,
           all ? "it has no object \"passed\"" : error.text);
    json_decref(all);
    return NULL;
}

/* Makes the folders above a file. Folders that exist are no error; a folder that cannot be made shows when the file is
 * opened. */
static inline void course_make_folders(const char *path)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(folder, 0777);
        *slash = '/';
    }
}

/* Writes a file of its own first and renames it, so that a reader finds the old file or the new one as a whole. */
static inline bool course_progress_write(const char *path, const json_t *all)
{
    char part[4096];
    snprintf(part, sizeof part, "%s.%d", path, (int)getpid());
    course_make_folders(path);
    if (json_dump_file(all, part, JSON_INDENT(1) | JSON_SORT_KEYS) == 0 && rename(part, path) == 0) return true;
    int error = errno;
    unlink(part);
    printf("Your progress is not kept: %s cannot be written: %s.\n", path, strerror(error));
    return false;
}

/* The notebooks in labs/solutions pass every check; that is no progress of the learner's. */
static inline bool course_is_solution(void)
{
    char folder[4096];
    const char *last = getcwd(folder, sizeof folder) ? strrchr(folder, '/') : NULL;
    return last && strcmp(last, "/solutions") == 0;
}

/* Records that a check was passed: "1.a", "1.quiz". A failure is one sentence. */
static inline void course_record(const char *check)
{
    char path[4000];
    if (course_is_solution() || !course_progress_path(path, sizeof path)) return;
    json_t *all = course_progress_read(path), *passed = json_object_get(all, "passed");
    if (all && !json_is_true(json_object_get(passed, check)) && json_object_set_new(passed, check, json_true()) == 0)
        course_progress_write(path, all);
    json_decref(all);
}

static inline bool course_has_passed(const json_t *passed, const char *lesson, const char *what)
{
    char check[32];
    snprintf(check, sizeof check, "%s.%s", lesson, what);
    return json_is_true(json_object_get(passed, check));
}

/* Prints a table: for each lesson the exercises passed, and whether the quiz is. */
static inline void course_progress(void)
{
    char path[4000];
    bool kept = course_progress_path(path, sizeof path);
    json_t *all = kept ? course_progress_read(path) : json_pack("{s:{}}", "passed");
    if (!all) return;
    const json_t *passed = json_object_get(all, "passed");
    printf("lesson                             exercises   quiz\n");
    for (int i = 0; i < COURSE_LESSONS; i++) {
        const course_lesson *lesson = &course_lessons[i];
        int done = 0, exercises = (int)strlen(lesson->exercises);
        for (int j = 0; j < exercises; j++)
            done += course_has_passed(passed, lesson->number, (char[]){lesson->exercises[j], '\0'});
        printf("%-3s %-30s %4d of %d   %s\n", lesson->number, lesson->title, done, exercises,
               course_has_passed(passed, lesson->number, "quiz") ? "passed" : "-");
    }
    if (kept)
        printf("Kept in %s.\n",
               getenv("KOLO_PROGRESS") ? "the file that KOLO_PROGRESS names" : "~/.local/share/kolo/progress.json");
    json_decref(all);
}

#endif
