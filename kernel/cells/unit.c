#include "cells/needs.h"
#include "cells/packing.h"
#include "cells/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void emit_name(writer *w, char space, const char *name, bool early);

/* Emits the entities that a type or another entity uses. `early`: those too that the cell itself defines later. */
static void emit_used(writer *w, const names *uses, const entity *by, bool early)
{
    for (size_t i = 0; i < uses->count; i++) {
        bool forward = by && declaration_suffices(by, uses->items[i]);
        for (const char *space = forward ? "mo" : "mto"; *space; space++) emit_name(w, *space, uses->items[i], early);
    }
}

static void declare_forward(writer *w, const entity *e)
{
    for (size_t i = 0; i < e->forward_dependencies.count; i++)
        text_addf(&w->out->source, "\n%s;\n", e->forward_dependencies.items[i]);
}

static void emit_forward(writer *w, const entity *e)
{
    for (size_t i = 0; i < e->forward_dependencies.count; i++)
        emit_name(w, 't', strchr(e->forward_dependencies.items[i], ' ') + 1, true);
}

static void emit_used_in(writer *w, const char *code)
{
    names uses = {0};
    token_list list = tokens_of(code);
    used_names(code, list.items, 0, list.count, &uses);
    emit_used(w, &uses, NULL, true);
    names_free(&uses);
    tokens_free(&list);
}

/* May the unit have a macro of that name? */
static bool named_by_macro(const writer *w, const char *name)
{
    char *key = format_text("m:%s", name ? name : "");
    bool found = name && (parsed_cell_find(w->cell, key) || symbols_find(w->session, key));
    free(key);
    return found;
}

/* Emits an earlier cell's text, in which a macro that has got the same name since must not be expanded. */
static void emit_text_of(writer *w, const entity *e, const char *code)
{
    bool hidden = e->kind != ENTITY_MACRO && named_by_macro(w, e->name);
    if (hidden) {
        char *hide = format_text("#pragma push_macro(\"%s\")\n#undef %s", e->name, e->name);
        glue(w, hide);
        free(hide);
    }
    text_add(&w->out->source, code);
    if (hidden) {
        char *back = format_text("#pragma pop_macro(\"%s\")", e->name);
        glue(w, back);
        free(back);
    }
}

static void emit_entity(writer *w, entity *e)
{
    if (!e || e->mark == w->out->mark) return;
    e->mark = w->out->mark;
    declare_forward(w, e);
    emit_used(w, e->dependencies.count ? &e->dependencies : &e->uses, e, true);
    text_add(&w->out->source, "\n");
    if (e->declaration) emit_text_of(w, e, e->declaration);
    emit_forward(w, e);
}

static void emit_type(writer *w, parsed_item *item, bool early);
static void emit_directive(writer *w, const piece *p, const char *macro);

/* Does the cell bring something that takes the place of one of the entity's names? */
static bool superseded(const parsed_cell *parsed, const entity *e)
{
    for (size_t i = 0; i < e->defines.count; i++) {
        parsed_item *own = parsed_cell_find(parsed, e->defines.items[i]);
        bool prototype = own && own->what->kind == ENTITY_FUNCTION && !own->what->defined;
        bool forward = own && only_declares(own->what) && !only_declares(e);
        if (own && !forward && !(prototype && e->definition)) return true;
    }
    return false;
}

/* Emits the cell's own definition of that name early, since an entity of an earlier cell needs it. */
static void emit_own(writer *w, parsed_item *own)
{
    entity *e = own->what;
    if (e->mark == w->out->mark) return;
    if (e->kind == ENTITY_TYPE) emit_type(w, own, true);
    if (e->kind != ENTITY_MACRO || !strstr(e->shown, "define")) return;
    e->mark = w->out->mark;
    emit_used(w, &e->uses, NULL, true);
    emit_directive(w, &w->cell->split.pieces[own->piece], e->name);
}

static void emit_name(writer *w, char space, const char *name, bool early)
{
    char *key = format_text("%c:%s", space, name);
    parsed_item *own = parsed_cell_find(w->cell, key);
    if (own && early) emit_own(w, own);
    entity *old = space == 'm' && names_have(&w->cell->undone, name) ? NULL : symbols_find(w->session, key);
    if (old && !old->gone && !superseded(w->cell, old)) emit_entity(w, old);
    free(key);
}

static bool is_pack(const parsed_cell *parsed, const piece *p)
{
    const token *t = &parsed->split.tokens.items[p->first];
    return p->kind == PIECE_DIRECTIVE && packing_line(parsed->source + t->begin, t->end - t->begin);
}

/* Types are emitted where they are first needed, each with the cell's `#pragma pack` lines before it. True when there
 * were any: unpack() must follow. */
static bool pack_as_before(writer *w, size_t at_piece)
{
    bool any = w->cell->packing.count > 0;
    if (any) glue(w, "#pragma pack(push, kolo_cell)\n#pragma pack()");
    for (size_t i = 0; i < w->cell->packing.count; i++) glue(w, w->cell->packing.items[i]);
    for (size_t i = 0; i < at_piece; i++) {
        const piece *p = &w->cell->split.pieces[i];
        if (!is_pack(w->cell, p)) continue;
        if (!any) glue(w, "#pragma pack(push, kolo_cell)\n#pragma pack()");
        any = true;
        add_range(w, p->first, p->last, (range_options){.name = none});
        text_add(&w->out->source, "\n");
    }
    return any;
}

static void unpack(writer *w, bool packed)
{
    if (packed) glue(w, "#pragma pack(pop, kolo_cell)");
}

/* A struct, union or enum with its members, or a typedef, or a static assertion: as written, at file scope. */
static void emit_type(writer *w, parsed_item *item, bool early)
{
    item->what->mark = w->out->mark;
    if (early) declare_forward(w, item->what);
    emit_used(w, &item->what->uses, early ? item->what : NULL, early);
    const piece *p = &w->cell->split.pieces[item->piece];
    declaration taken = declaration_of(&w->cell->split, p);
    char *tag = unnamed_tag(&w->cell->split, &taken);
    size_t begin = w->out->source.size;
    bool packed = pack_as_before(w, item->piece);
    size_t last = taken.is_typedef || !taken.count ? p->last : taken.specifiers_last;
    add_range(w, p->first, last,
              (range_options){.drop_storage = true,
                              .tag_after = taken.untagged,
                              .tag = tag,
                              .name = p->first,
                              .offset = &item->offset});
    text_add(&w->out->source, last == p->last ? "\n" : ";\n");
    unpack(w, packed);
    free(item->what->declaration);
    item->what->declaration = copy_of_bytes(w->out->source.data + begin, w->out->source.size - begin);
    if (early) emit_forward(w, item->what);
    free(tag);
    declaration_free(&taken);
}

/* Does the type come from the value? `auto` does that in C23, where no type stands beside it. */
static bool is_auto_type(const writer *w, const piece *p, const declaration *taken)
{
    static const char *const beside[] = {"const", "volatile", "constexpr", NULL};
    bool inferred = false, typed = false;
    for (size_t i = p->first; i < taken->specifiers_last; i++) {
        const token *t = &w->cell->split.tokens.items[i];
        const char *const *word = beside;
        while (*word && !token_is(w->cell->source, t, *word)) word++;
        if (token_is(w->cell->source, t, "__auto_type")) return true;
        inferred |= w->cell->c23 && token_is(w->cell->source, t, "auto");
        typed |= !*word && !storage_word(w->cell->source, t);
    }
    return inferred && !typed;
}

static void emit_specifiers(writer *w, const parsed_item *item, const declaration *taken, const char *tag)
{
    const piece *p = &w->cell->split.pieces[item->piece];
    const declarator *one = &taken->declarators[item->declarator];
    if (is_auto_type(w, p, taken) && item->has_value) {
        text_add(&w->out->source, "__typeof__(((void)0,"); /* behind a comma an array is a pointer, as in a value */
        add_range(w, one->value, one->value_last, (range_options){.name = none});
        text_add(&w->out->source, "))");
    } else {
        add_range(w, p->first, taken->specifiers_last,
                  (range_options){.drop_storage = true,
                                  .drop_bodies = true,
                                  .tag_after = taken->untagged,
                                  .tag = tag,
                                  .name = none});
    }
}

/* As the cell has it. */
static void emit_written(writer *w, parsed_item *item, const declaration *taken, bool valued)
{
    const declarator *one = &taken->declarators[item->declarator];
    char *tag = unnamed_tag(&w->cell->split, taken);
    emit_specifiers(w, item, taken, tag);
    add_range(w, one->first, one->last,
              (range_options){.name = one->name,
                              .offset = &item->offset,
                              .number_after = one->open_bracket,
                              .number = item->open_size});
    if (valued && item->has_value) {
        text_add(&w->out->source, " =");
        add_range(w, one->value, one->value_last, (range_options){.name = none});
    }
    text_add(&w->out->source, "\n;\n");
    free(tag);
}

/* As its type is known by now. The compiler may take a const for unchangeable, and this unit sets it. */
static void emit_known(writer *w, const entity *e)
{
    const char *outside = e->is_volatile ? "volatile " : "";
    if (e->constant) text_add(&w->out->source, e->declaration);
    else if (!e->is_const) text_addf(&w->out->source, "__typeof__(%s) %s;\n", e->type, e->name);
    else if (e->is_atomic) /* which __typeof_unqual__ drops, too */
        text_addf(&w->out->source, "%s_Atomic(__typeof_unqual__(%s)) %s;\n", outside, e->type, e->name);
    else text_addf(&w->out->source, "%s__typeof_unqual__(%s) %s;\n", outside, e->type, e->name);
}

static void emit_alignment(writer *w, parsed_item *item)
{
    text_add(&w->out->source, glue_line);
    text_add(&w->out->source, "static const unsigned long ");
    item->align_offset = w->out->source.size;
    text_addf(&w->out->source, "kolo_probe_align_%s = __alignof__(%s);\n", item->what->name, item->what->name);
}

static void emit_variable(writer *w, parsed_item *item)
{
    entity *e = item->what;
    bool variable = e->kind == ENTITY_VARIABLE, natural = variable && e->natural && e->defined;
    bool valued = variable && (item->constant || natural);
    size_t begin = w->out->source.size;
    glue(w, variable && !valued ? "extern" : "");
    if (variable && e->threads) glue(w, "_Thread_local");
    if (w->assembled && variable && e->written && !natural) {
        emit_known(w, e);
        return;
    }
    declaration taken = declaration_of(&w->cell->split, &w->cell->split.pieces[item->piece]);
    emit_written(w, item, &taken, valued);
    declaration_free(&taken);
    size_t end = w->out->source.size;
    if (item->aligned && variable && !w->assembled) emit_alignment(w, item);
    if (w->assembled && e->declaration) return; /* it has been put in better words */
    free(e->declaration);
    e->declaration = copy_of_bytes(w->out->source.data + begin, end - begin);
}

static void emit_function(writer *w, parsed_item *item)
{
    const piece *p = &w->cell->split.pieces[item->piece];
    declaration taken = declaration_of(&w->cell->split, p);
    const declarator *one = taken.count ? &taken.declarators[0] : NULL;
    size_t body = one ? one->last : p->last, head = taken.old_style != none ? taken.old_style + 1 : body;
    char *tag = unnamed_tag(&w->cell->split, &taken);
    bool packed = pack_as_before(w, item->piece); /* for the structs inside */
    size_t begin = w->out->source.size;
    add_range(w, p->first, taken.specifiers_last,
              (range_options){.drop_storage = true,
                              .drop_bodies = taken.has_body,
                              .tag_after = taken.untagged,
                              .tag = tag,
                              .name = none});
    add_range(w, taken.specifiers_last, head, (range_options){.name = one ? one->name : none, .offset = &item->offset});
    free(item->what->declaration);
    free(item->what->definition);
    const char *type = taken.specifiers_last == p->first ? "int " : ""; /* `main() {…}` */
    item->what->declaration = format_text("%s%.*s%s\n;\n", type, (int)(w->out->source.size - begin),
                                          w->out->source.data + begin, head == body ? "" : ")");
    add_range(w, head, body, (range_options){.name = none});
    add_range(w, body, p->last, (range_options){.name = none});
    item->what->definition = copy_of_bytes(w->out->source.data + begin, w->out->source.size - begin);
    unpack(w, packed);
    free(tag);
    declaration_free(&taken);
}

static bool directive_is(const writer *w, const piece *p, const char *word)
{
    return word_at(directive_word(w->cell->source, &w->cell->split.tokens.items[p->first]), word);
}

/* `#pragma omp parallel for`, say: it belongs to the statement that follows. */
static bool before_statement(const writer *w, size_t at_piece)
{
    if (!directive_is(w, &w->cell->split.pieces[at_piece], "pragma")) return false;
    while (at_piece < w->cell->split.count && w->cell->split.pieces[at_piece].kind == PIECE_DIRECTIVE) at_piece++;
    return at_piece < w->cell->split.count && w->cell->split.pieces[at_piece].kind == PIECE_STATEMENT;
}

static void emit_directive(writer *w, const piece *p, const char *macro)
{
    if (macro) text_addf(&w->out->source, "\n#undef %s\n", macro);
    add_range(w, p->first, p->last, (range_options){.name = none});
    text_add(&w->out->source, "\n");
}

static void emit_used_between(writer *w, size_t first, size_t last)
{
    names uses = {0};
    used_names(w->cell->source, w->cell->split.tokens.items, first, last, &uses);
    emit_used(w, &uses, NULL, false);
    names_free(&uses);
}

/* The cell's definitions, in its order, each after what it uses of the session. */
static void emit_definitions(writer *w)
{
    size_t item = 0;
    for (size_t i = 0; i < w->cell->split.count; i++) {
        const piece *p = &w->cell->split.pieces[i];
        if (p->kind != PIECE_STATEMENT && p->kind != PIECE_EXPRESSION) emit_used_between(w, p->first, p->last);
        bool pragma_here = p->kind == PIECE_DIRECTIVE && !directive_is(w, p, "include") && !is_pack(w->cell, p) &&
                           !before_statement(w, i);
        if (pragma_here) {
            entity *e = item < w->cell->count && w->cell->items[item].piece == i ? w->cell->items[item].what : NULL;
            emit_directive(w, p, e ? e->name : NULL);
            if (e) e->mark = w->out->mark;
        }
        if (p->kind == PIECE_BROKEN) add_range(w, p->first, p->last, (range_options){.name = none});
        for (; item < w->cell->count && w->cell->items[item].piece == i; item++) {
            parsed_item *one = &w->cell->items[item];
            if (one->what->kind == ENTITY_TYPE && one->what->mark != w->out->mark) emit_type(w, one, false);
            if (one->declarator != none) emit_variable(w, one);
            else if (one->what->kind == ENTITY_FUNCTION) emit_function(w, one);
        }
    }
}

/* `x = value` at its place in the cell's order; without a value, zero, as C has it for such a variable. */
static void emit_initialiser(writer *w, parsed_item *item)
{
    const char *name = item->what->name;
    const piece *p = &w->cell->split.pieces[item->piece];
    declaration taken = declaration_of(&w->cell->split, p);
    const declarator *one = &taken.declarators[item->declarator];
    if (item->what->natural) {
        /* the loader does it */
    } else if (!item->has_value) {
        char *zero = format_text("__builtin_memset((void *)&%s, 0, sizeof %s);", name, name);
        glue(w, zero);
        free(zero);
    } else {
        const char *storage = item->what->size > 65536 && !item->computed ? "static " : "";
        text_addf(&w->out->source, "%s{ %s__typeof__(%s) ", glue_line, storage, name);
        move_to(w, one->name); /* where clang points when the initialiser does not fit */
        item->init_offset = w->out->source.size;
        text_add(&w->out->source, "kolo_value =");
        add_range(w, one->value, one->value_last,
                  (range_options){.keep_literals = !*storage, .but_first = item->is_array, .name = none});
        bool ends = one->value_last < w->cell->split.tokens.count;
        if (ends)
            move_to(w, one->value_last); /* what clang misses in the value, it misses before this comma or semicolon */
        /* asm: the compiler must not know that this writes to a const */
        text_addf(&w->out->source,
                  "%s;%svoid *kolo_place = (void *)&%s; __asm__(\"\" : \"+r\"(kolo_place)); "
                  "__builtin_memcpy(kolo_place, (const void *)&kolo_value, sizeof kolo_value); }\n",
                  ends ? "" : "\n", glue_line, name);
    }
    declaration_free(&taken);
}

/* The trailing expression, in the form that its type asks for. An array that a function returned has no address, and a
 * compound literal none that lasts: kolo_cell_value copies what it is shown. */
static void emit_value(writer *w, const piece *p)
{
    static const char copied[] = "; kolo_cell_value((const void *)&kolo_value, sizeof kolo_value); }",
                      pointed[] = "; kolo_cell_value((const void *)kolo_value, sizeof *kolo_value); }";
    static const struct {
        const char *before, *between, *after; /* between: the expression stands twice, once unevaluated */
    } forms[] = {
        [VALUE_PROBE] = {"(void)(", NULL, ";"},
        [VALUE_NONE] = {"(void)(", NULL, ";"},
        [VALUE_PLAIN] = {"{ __auto_type kolo_value = (", NULL, copied},
        [VALUE_BITS] = {"{ long long kolo_value = (", NULL, copied},
        [VALUE_OBJECT] = {"{ __auto_type kolo_value = (", NULL, "; kolo_cell_show((const void *)kolo_value, "},
        [VALUE_RECIPE] = {"{ __auto_type kolo_value = (", NULL, "; kolo_cell_show((const void *)&kolo_value, "},
        [VALUE_LARGE] = {"{ static __typeof_unqual__(", ") kolo_value; kolo_value = (", copied},
        [VALUE_ARRAY] = {"kolo_cell_value((const void *)(", "), sizeof(__typeof__(", "));"},
        [VALUE_RUNTIME_ARRAY] = {"{ __auto_type kolo_value = &(", NULL, pointed},
        [VALUE_OPEN_ARRAY] = {"kolo_cell_value((const void *)(", NULL, ", 0);"},
    };
    text_add(&w->out->source, glue_line);
    if (w->value == VALUE_PROBE) w->out->value_offset = w->out->source.size;
    text_add(&w->out->source, forms[w->value].before);
    add_range(w, p->first, p->last, (range_options){.keep_literals = true, .name = none});
    text_add(&w->out->source, p->open ? "" : "\n");
    if (p->open) return;
    if (forms[w->value].between) {
        glue(w, forms[w->value].between);
        add_range(w, p->first, p->last, (range_options){.name = none});
    }
    glue(w, ")");
    glue(w, forms[w->value].after);
    if (w->value == VALUE_OBJECT || w->value == VALUE_RECIPE)
        text_addf(&w->out->source, "\"%s\"); }\n", w->cell->shower);
}

/* Functions and variables of earlier cells that depend on what this one changes. */
static void emit_dependents(writer *w)
{
    for (size_t i = 0; i < w->cell->again_count; i++) {
        emit_used(w, &w->cell->again[i]->uses, NULL, true);
        w->cell->again[i]->mark = w->out->mark;
        emit_text_of(w, w->cell->again[i], w->cell->again[i]->definition);
    }
    for (size_t i = 0; i < w->cell->recheck_count; i++) {
        entity *e = w->cell->recheck[i];
        emit_used(w, &e->uses, NULL, true);
        text_add(&w->out->source, glue_line);
        w->cell->recheck_offset[i] = 0;
        if (!e->written) continue;
        text_addf(&w->out->source, "extern __typeof__(%s) ", e->type);
        w->cell->recheck_offset[i] = w->out->source.size;
        text_addf(&w->out->source, "%s;\n", e->name);
    }
}

/* The code begins with the macros as they were before the cell; the cell's own directives stand at their places. */
static void restore_macros(writer *w)
{
    for (size_t i = 0; i < w->cell->count; i++) {
        const entity *e = w->cell->items[i].what;
        if (e->kind != ENTITY_MACRO) continue;
        const entity *old = symbols_find(w->session, e->defines.items[0]);
        text_addf(&w->out->source, "\n#undef %s\n%s", e->name, old ? old->declaration : "");
    }
}

static void emit_code_directive(writer *w, size_t at_piece)
{
    const char *macro = NULL;
    for (size_t i = 0; i < w->cell->count; i++) {
        const parsed_item *item = &w->cell->items[i];
        if (item->piece == at_piece && item->what->kind == ENTITY_MACRO) macro = item->what->name;
    }
    if (macro || before_statement(w, at_piece)) emit_directive(w, &w->cell->split.pieces[at_piece], macro);
}

static void emit_used_by_asked(writer *w)
{
    for (size_t i = 0; i < w->cell->asked.count; i++) emit_used_in(w, w->cell->asked.items[i]);
}

/* Sizes of arrays that the rest of the cell needs to be compiled at all. */
static void emit_asked(writer *w)
{
    if (!w->cell->asked.count) return;
    glue(w, "{ long kolo_sizes[] = {");
    for (size_t i = 0; i < w->cell->asked.count; i++) {
        glue(w, "(long)(");
        text_addf(&w->out->source, "%s\n", w->cell->asked.items[i]);
        glue(w, "),");
    }
    glue(w, "}; kolo_cell_value(kolo_sizes, sizeof kolo_sizes); }");
}

static void emit_code(writer *w)
{
    char *open = format_text("void %s(void);\nvoid %s(void) {", w->cell->function, w->cell->function);
    glue(w, open);
    free(open);
    restore_macros(w);
    for (size_t i = 0; i < w->cell->count; i++) {
        if (!w->cell->items[i].constructor) continue;
        char *call = format_text("%s();", w->cell->items[i].what->name);
        glue(w, call);
        free(call);
    }
    bool complete = true;
    for (size_t i = 0, item = 0; i < w->cell->split.count; i++) {
        const piece *p = &w->cell->split.pieces[i];
        if (p->kind == PIECE_STATEMENT) {
            add_range(w, p->first, p->last, (range_options){.keep_literals = true, .name = none});
            complete = !p->open;
        }
        if (p->kind == PIECE_DIRECTIVE) emit_code_directive(w, i);
        if (p->kind == PIECE_EXPRESSION) {
            emit_value(w, p);
            complete = !p->open;
        }
        while (item < w->cell->count && w->cell->items[item].piece < i) item++;
        for (; item < w->cell->count && w->cell->items[item].piece == i; item++) {
            parsed_item *one = &w->cell->items[item];
            if (one->what->kind == ENTITY_VARIABLE && one->what->defined) emit_initialiser(w, one);
        }
    }
    emit_asked(w);
    if (complete) glue(w, "}"); /* else clang meets the end of the cell where its author left it */
}

/* clang says of an unclosed comment where it begins. */
static void add_open_comment(writer *w)
{
    const token_list *t = &w->cell->split.tokens;
    char *line = line_directive(w->cell, t->open_line);
    text_addf(&w->out->source, "\n%s", line);
    free(line);
    pad_to(w, t->open_at);
    text_add(&w->out->source, w->cell->source + t->open_at);
}

unit unit_of(parsed_cell *parsed, const symbols *session, value_form value, const char *assembly)
{
    static unsigned marks;
    unit u = {.mark = ++marks};
    writer w = {parsed, session, &u, value, assembly != NULL};
    text_add(&u.source, parsed->prefix.data ? parsed->prefix.data : "");
    u.prefix_size = u.source.size;
    glue(&w, "void kolo_cell_value(const void *, unsigned long); void kolo_cell_show(const void *, const char *); "
             "int kolo_cell_shell(const char *); double kolo_cell_clock(void);");
    for (size_t i = 0; i < parsed->undone.count; i++) { /* the includes may stand behind them in the prefix */
        char *line = format_text("#undef %s", parsed->undone.items[i]);
        glue(&w, line);
        free(line);
    }
    emit_definitions(&w);
    emit_used_between(&w, 0, parsed->split.tokens.count);
    emit_used_by_asked(&w);
    emit_dependents(&w);
    const piece *last = parsed->split.count ? &parsed->split.pieces[parsed->split.count - 1] : NULL;
    bool cut = last && last->open && last->kind != PIECE_STATEMENT && last->kind != PIECE_EXPRESSION;
    if (parsed->has_code && !cut) emit_code(&w);
    if (parsed->split.tokens.open_comment) add_open_comment(&w);
    if (assembly) glue(&w, assembly);
    return u;
}

void unit_hide_glue(unit *u)
{
    for (char *at = u->source.data; (at = strstr(at, glue_line)); at++) at[strlen("\n#line ")] = '0';
}
