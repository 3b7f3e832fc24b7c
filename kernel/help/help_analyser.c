/* The analyser of help. See help.h. */
#include "help/help.h"

#include <string.h>

enum { ANY_NUMBER = 1000 }; /* of elements, for an array whose initialiser is being written */

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

parsed_cell parsed_behind(session *s, const char *code, const char *header)
{
    parsed_cell parsed = parsed_cell_of(code, "In[0]", 0, s->prefix, s->symbols);
    if (!strstr(parsed.prefix.data ? parsed.prefix.data : "", header))
        text_addf(&parsed.prefix, "#include <%s>\n", header);
    for (size_t i = 0; i < parsed.count; i++) {
        if (parsed.items[i].open_array) parsed.items[i].open_size = ANY_NUMBER;
    }
    return parsed;
}
