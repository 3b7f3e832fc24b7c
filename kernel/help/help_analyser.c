/* The analyser of help. See help.h. */
#include "help/help.h"

static void swap_analysers(session *s)
{
    analyser other = s->helper;
    s->helper = s->analyser;
    s->analyser = other;
    s->analyser.standard = s->helper.standard; /* what headers declare is known once */
    s->helper.standard = NULL;
}

void help_begins(session *s)
{
    if (!s->helper.index) analyser_open(&s->helper, &s->base_flags, s->folder);
    swap_analysers(s);
}

void help_ends(session *s)
{
    swap_analysers(s);
}
