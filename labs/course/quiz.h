/* Checks, hints and quizzes. Included by course.h; the texts of a lesson are in its lesson_N.h. */
#ifndef COURSE_QUIZ_H
#define COURSE_QUIZ_H

#include "board.h"
#include "progress.h"

#include <ctype.h>
#include <stdarg.h>

/* Ends a check. After a pass it prints so and records it; otherwise it prints the sentence that the format and its
 * arguments make: what was expected, what came, and what to look at. Returns `passed`. `exercise`: "2.1.a". */
__attribute__((format(printf, 3, 4))) static inline bool course_check(const char *exercise, bool passed,
                                                                      const char *format, ...)
{
    if (passed) {
        printf("Exercise %s: passed.\n", exercise);
        course_record(exercise);
        course_tell(exercise, "passed", 0);
        return true;
    }
    va_list values;
    va_start(values, format);
    printf("Exercise %s: not yet. ", exercise);
    vprintf(format, values);
    printf("\n");
    va_end(values);
    course_tell(exercise, "tried", 0);
    return false;
}

#define COURSE_COLUMNS       96 /* JupyterLab breaks a longer line where its own width ends, within words, too */
#define COURSE_HINTS         3
#define COURSE_EXERCISES_MAX 16

static struct {
    const char *exercise, *text[COURSE_HINTS];
    int shown;
} course_hint_of[COURSE_EXERCISES_MAX];

/* Prints a text after what is in the line, broken between words: JupyterLab breaks a line that is longer than its page
 * within a word. `column`: the characters that are in the line; `indent`: the blanks before each further line. */
static inline void course_words(const char *text, int column, int indent)
{
    while (*text) {
        size_t length = strcspn(text, " ");
        int width = 0;
        for (size_t i = 0; i < length; i++) width += ((unsigned char)text[i] & 0xc0) != 0x80; /* UTF-8 */
        if (column > indent && column + 1 + width > COURSE_COLUMNS) column = printf("\n%*s", indent, "") - 1;
        else if (column > indent) column += printf(" ");
        printf("%.*s", (int)length, text);
        column += width;
        text += length + strspn(text + length, " ");
    }
    printf("\n");
}

/* Registers the three hints of an exercise, from weak to strong. A second call replaces them and keeps how many were
 * shown. The texts must remain valid. */
static inline void course_hints(const char *exercise, const char *first, const char *second, const char *third)
{
    int i = 0;
    while (i < COURSE_EXERCISES_MAX - 1 && course_hint_of[i].exercise && strcmp(course_hint_of[i].exercise, exercise))
        i++;
    course_hint_of[i].exercise = exercise;
    course_hint_of[i].text[0] = first;
    course_hint_of[i].text[1] = second;
    course_hint_of[i].text[2] = third;
}

/* Prints the next hint of an exercise; after the third, the third again. The hint is not on the first line, which
 * JupyterLab shows of an output that is folded. */
static inline void course_hint(const char *exercise)
{
    if (!course_ready()) return;
    for (int i = 0; i < COURSE_EXERCISES_MAX && course_hint_of[i].exercise; i++) {
        if (strcmp(course_hint_of[i].exercise, exercise)) continue;
        int shown = course_hint_of[i].shown, next = shown < COURSE_HINTS ? shown : COURSE_HINTS - 1;
        printf("Hint %d of %d for %s:\n", next + 1, COURSE_HINTS, exercise);
        course_words(course_hint_of[i].text[next], 0, 0);
        if (next + 1 < COURSE_HINTS) printf("Run this cell again for a stronger hint.\n");
        course_hint_of[i].shown = next + 1;
        course_tell(exercise, "hint", next + 1);
        return;
    }
    printf("There are no hints for %s here. Run the first cell of this lesson's notebook, then this cell again.\n",
           exercise);
}

#define COURSE_QUESTIONS 5

/* A question with two to four choices; the others are NULL. */
typedef struct course_question {
    const char *question, *choice[4];
    char answer; /* 'a' to 'd' */
    const char *why;
} course_question;

static const course_question *course_quiz_now;
static const char *course_quiz_lesson;

static inline int course_choices(const course_question *question)
{
    int count = 0;
    while (count < 4 && question->choice[count]) count++;
    return count;
}

/* Prints five questions with their choices; course_answers() then takes the answers. */
static inline void course_quiz(const char *lesson, const course_question *five)
{
    if (!course_ready()) return;
    course_quiz_now = five;
    course_quiz_lesson = lesson;
    for (int i = 0; i < COURSE_QUESTIONS; i++) {
        printf("%s%d. ", i ? "\n" : "", i + 1);
        course_words(five[i].question, 3, 3);
        for (int j = 0; j < course_choices(&five[i]); j++) {
            printf("   %c) ", 'a' + j);
            course_words(five[i].choice[j], 6, 6);
        }
    }
}

/* Prints whether the answer to question i is right, and why. Returns 1 if it is. */
static inline int course_answer(int i, char given)
{
    const course_question *question = &course_quiz_now[i];
    char last = (char)('a' + course_choices(question) - 1), letter = (char)tolower((unsigned char)given);
    if (given == '-') {
        printf("%d. not answered\n", i + 1);
        return 0;
    }
    if (letter < 'a' || letter > last) {
        printf("%d. the choices are a to %c, got '%c'\n", i + 1, last, given);
        return 0;
    }
    bool right = letter == question->answer;
    int column = printf("%d. %c is %s.", i + 1, letter, right ? "right" : "wrong");
    course_words(question->why, column, 3);
    return right;
}

/* Checks the answers: five letters, "abcab"; '-' stands for a question that is not answered. Records a pass if all five
 * are right. */
static inline void course_answers(const char *lesson, const char *answers)
{
    if (!course_ready()) return;
    if (!course_quiz_now || strcmp(course_quiz_lesson, lesson)) {
        printf("Run the cell with the questions of lesson %s first.\n", lesson);
        return;
    }
    if (strlen(answers) != COURSE_QUESTIONS) {
        printf("Type five letters, one for each question, and - for a question that you leave open; got \"%s\".\n",
               answers);
        return;
    }
    int right = 0;
    for (int i = 0; i < COURSE_QUESTIONS; i++) right += course_answer(i, answers[i]);
    printf("%d of %d right%s\n", right, COURSE_QUESTIONS, right == COURSE_QUESTIONS ? ": the quiz is passed." : ".");
    char check[32];
    snprintf(check, sizeof check, "%s.quiz", lesson);
    if (right == COURSE_QUESTIONS) course_record(check);
    course_tell(check, right == COURSE_QUESTIONS ? "passed" : "tried", 0);
}

#endif
