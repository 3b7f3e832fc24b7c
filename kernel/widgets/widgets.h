/* Sliders that set variables of the session. The front end of ipywidgets draws them: it is told of a slider by the
 * messages of Jupyter's comms (the widget messaging protocol 2.1.0), and tells where the learner has moved it.
 *
 *   slider.c    one slider: its three models (layout, style, the slider) as JSON, and what moves it
 *   variable.c  the number in a variable of the session's worker
 *   widgets.c   the session's sliders: which message is answered how, what happens before and after a cell
 *
 * Comms may arrive on any thread while a cell runs. They only note the new value, by `lock`. The variable gets it from
 * the thread that holds the session's `busy` (session.h): before the next cell, or at once when none runs. Sliders are
 * added and removed by that thread alone. */
#ifndef KERNEL_WIDGETS_WIDGETS_H
#define KERNEL_WIDGETS_WIDGETS_H

#include "session.h"

enum { SLIDER_LAYOUT, SLIDER_STYLE, SLIDER_ITSELF, SLIDER_MODELS };

#define SLIDER_EXACT 9007199254740992.0 /* 2^53: the front end's numbers are doubles */

typedef struct slider {
    char *name;                  /* of the variable */
    char ids[SLIDER_MODELS][33]; /* of the models' comms */
    bool whole;                  /* it stands on whole numbers only */
    double least, most, step;    /* finite; least < most; 0 < step <= most - least */
    double value;                /* where it stands */
    bool moved;                  /* the variable does not have `value` yet */
    bool closed;                 /* by the front end: to be removed */
    bool gone;                   /* there is no such variable any more */
    bool outside;                /* the variable is beyond its ends */
} slider;

typedef struct widgets {
    pthread_mutex_t lock;
    slider *items;
    size_t count, capacity;
} widgets;

/* slider.c */
void slider_name_models(slider *one);
void slider_free(slider *one);
double slider_nearest(const slider *one, double value); /* within its ends; of NaN: the lower one */
/* Of one of its models. */
json_t *slider_state(const slider *one, int model);
/* {"comm_id", "data": {"method", "state", "buffer_paths"}}. Takes the state. */
json_t *slider_message(const slider *one, int model, const char *method, json_t *state);
json_t *slider_position(const slider *one); /* {"value"} */
json_t *slider_label(const slider *one);    /* {"description", "disabled"} */
/* The learner has moved it: false for what is no such number. */
bool slider_move(slider *one, json_t *value);

/* variable.c */
typedef struct number {
    const char *link; /* borrowed, until the next cell */
    const char *type; /* "unsigned int" */
    bool floating, is_signed;
    size_t size;
} number;

/* False when a slider cannot set such a variable: it is no number, or const, or each thread has its own. */
bool number_of(const entity *variable, number *n);
/* Does the type have all values between the slider's ends, and those between two steps? */
bool number_fits(const number *n, const slider *one);
/* In the worker, which must be idle. False when there is none, or it has no such variable. */
bool number_read(session *s, const number *n, double *value);
bool number_write(session *s, const number *n, double value);

/* widgets.c */
widgets *widgets_open(void);
void widgets_close(widgets *w);
/* Shows the slider, in the place of an earlier one of the same variable. Takes it. */
void widgets_add(session *s, slider *one);
/* Before a cell: variables get the values of the sliders that were moved. */
void widgets_before_cell(session *s);
/* After it: moved sliders first, then the others follow their variables. */
void widgets_after_cell(session *s);
/* A new worker has zeros: its variables get the values of all sliders. */
void widgets_worker_started(session *s);

#endif
