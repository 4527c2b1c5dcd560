/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <ctype.h>
#include <stdio.h>

#include "base/conf_internal.h"

enum {
    COMMENT_COLUMN = 44,
    HELP_COLUMN = 32,
    HELP_WIDTH = 80,
};

/* What the file's parser would not read back as it stands. */
static bool needs_quotes(struct cay_str text)
{
    if (!text.len || *text.ptr == '"' || *text.ptr == '#' || cay_str_trim(text).len != text.len)
        return true;
    for (size_t i = 1; i < text.len; i++) {
        if (text.ptr[i] == '#' && (text.ptr[i - 1] == ' ' || text.ptr[i - 1] == '\t'))
            return true;
    }
    return false;
}

/* Controls become '?': a value must not add lines to what is printed. */
static void put_value(struct cay_buf *out, struct cay_str text)
{
    bool quotes = needs_quotes(text);
    if (quotes)
        cay_buf_append_byte(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (quotes && (c == '"' || c == '\\'))
            cay_buf_append_byte(out, '\\');
        cay_buf_append_byte(out, c < 0x20 || c == 0x7F ? '?' : c);
    }
    if (quotes)
        cay_buf_append_byte(out, '"');
}

/* Items hold no commas, so the joined text is quoted as a whole. */
static void put_list(struct cay_buf *out, const struct cay_conf_list *list)
{
    cay_auto(cay_buf_finish) struct cay_buf joined;
    cay_buf_init(&joined, CAY_CONF_LIST_ITEMS_MAX * (CAY_CONF_VALUE_BYTES_MAX + 2));
    for (size_t i = 0; i < list->count; i++) {
        cay_buf_append_text(&joined, i ? ", " : "");
        cay_buf_append_text(&joined, list->items[i]);
    }
    put_value(out, cay_buf_str(&joined));
}

static void put_source(struct cay_buf *out, const char *key, const struct cay_conf_origin *origin)
{
    char name[CAY_CONF_NAME_BYTES];
    cay_conf_spell(key, origin->source, name);
    if (origin->source == CAY_CONF_DEFAULT)
        cay_buf_append_text(out, "default");
    else if (origin->source == CAY_CONF_FILE)
        cay_buf_printf(out, "%s:%u", origin->file, origin->line);
    else
        cay_buf_append_text(out, name);
}

void cay_conf_print(const struct cay_conf *conf, struct cay_buf *out)
{
    for (size_t i = 0; i < conf->count; i++) {
        const struct cay_conf_entry *entry = &conf->entries[i];
        const struct cay_conf_origin *origin = &conf->origins[i];
        if (!cay_conf_may_come_from(entry, CAY_CONF_FILE))
            continue;
        union cay_conf_value value;
        cay_conf_get_member(conf, i, &value);
        size_t start = out->len;
        if (entry->type == CAY_CONF_SECRET)
            cay_buf_printf(out, "# %s = %s", entry->key, value.secret.len ? "***" : "");
        else if (entry->type == CAY_CONF_LIST)
            cay_buf_printf(out, "%s = ", entry->key);
        else
            cay_buf_printf(out, origin->text ? "%s = " : "# %s =", entry->key);
        if (entry->type == CAY_CONF_LIST)
            put_list(out, &value.list);
        else if (origin->text)
            put_value(out, cay_str(origin->text));
        do {
            cay_buf_append_byte(out, ' ');
        } while (!out->failed && out->len - start < COMMENT_COLUMN);
        cay_buf_append_text(out, "# ");
        put_source(out, entry->key, origin);
        cay_buf_append_byte(out, '\n');
    }
}

/* Words of `text`, continued at the help column. *column is where the line stands. */
static void put_wrapped(struct cay_buf *out, const char *text, size_t *column)
{
    struct cay_str rest = cay_str(text);
    struct cay_str word;
    while (cay_str_split(&rest, ' ', &word)) {
        if (!word.len)
            continue;
        if (*column > HELP_COLUMN && *column + 1 + word.len > HELP_WIDTH) {
            cay_buf_printf(out, "\n%*s", HELP_COLUMN, "");
            *column = HELP_COLUMN;
        }
        if (*column > HELP_COLUMN) {
            cay_buf_append_byte(out, ' ');
            *column += 1;
        }
        cay_buf_append_str(out, word);
        *column += word.len;
    }
}

static bool has_default(const struct cay_conf_entry *entry)
{
    return entry->fallback && *entry->fallback && entry->type != CAY_CONF_SECRET;
}

/* A switch that is off unless given goes without saying. */
static bool tells_default(const struct cay_conf_entry *entry)
{
    return has_default(entry) &&
           !(entry->type == CAY_CONF_BOOL && strcmp(entry->fallback, "false") == 0);
}

void cay_conf_print_help(const struct cay_conf_entry *entries, size_t count, struct cay_buf *out)
{
    for (size_t i = 0; i < count; i++) {
        const struct cay_conf_entry *entry = &entries[i];
        if (!cay_conf_may_come_from(entry, CAY_CONF_FLAG))
            continue;
        char name[CAY_CONF_NAME_BYTES];
        char text[CAY_CONF_ALLOWED_BYTES];
        size_t start = out->len;
        cay_conf_spell(entry->key, CAY_CONF_FLAG, name);
        cay_buf_printf(out, entry->letter ? "  -%c, " : "      ", entry->letter);
        if (entry->type != CAY_CONF_BOOL)
            cay_buf_printf(out, "%s %s", name, cay_conf_metavar(entry));
        else
            cay_buf_printf(out, tells_default(entry) ? "--[no-]%s" : "--%s", name + strlen("--"));
        size_t column = out->len - start;
        if (column + 2 > HELP_COLUMN) {
            cay_buf_append_byte(out, '\n');
            column = 0;
        }
        cay_buf_printf(out, "%*s", (int)(HELP_COLUMN - column), "");
        column = HELP_COLUMN;
        put_wrapped(out, entry->help, &column);
        if (entry->type == CAY_CONF_ENUM) {
            cay_conf_allowed(entry, text);
            text[0] = (char)toupper((unsigned char)text[0]);
            put_wrapped(out, text, &column);
            cay_buf_append_byte(out, '.');
            column++;
        }
        if (tells_default(entry)) {
            snprintf(text, sizeof(text), "(default %s)", entry->fallback);
            put_wrapped(out, text, &column);
        }
        cay_buf_append_byte(out, '\n');
    }
}

static bool takes_any_text(const struct cay_conf_entry *entry)
{
    return entry->type == CAY_CONF_SECRET || (entry->type == CAY_CONF_STRING && !entry->max);
}

/* Puts a backslash before every character of `special`. */
static void put_escaped(struct cay_buf *out, const char *text, const char *special)
{
    for (; *text; text++) {
        if (strchr(special, *text))
            cay_buf_append_byte(out, '\\');
        cay_buf_append_byte(out, (unsigned char)*text);
    }
}

static const char scdoc_special[] = "\\_*`#";

/* The paragraph of facts under the help sentence: "Label: *text*." for each. */
static void put_fact(struct cay_buf *out, const char **gap, const char *label, const char *mark,
                     const char *text)
{
    cay_buf_printf(out, "%s%s%s", *gap, label, mark);
    put_escaped(out, text, scdoc_special);
    cay_buf_printf(out, "%s.", mark);
    *gap = " ";
}

void cay_conf_print_scdoc(const struct cay_conf_entry *entries, size_t count, struct cay_buf *out)
{
    for (size_t i = 0; i < count; i++) {
        const struct cay_conf_entry *entry = &entries[i];
        if (!cay_conf_may_come_from(entry, CAY_CONF_FILE))
            continue;
        cay_buf_append_byte(out, '*');
        put_escaped(out, entry->key, scdoc_special);
        cay_buf_append_text(out, "* = _");
        put_escaped(out, cay_conf_metavar(entry), scdoc_special);
        cay_buf_append_text(out, "_\n\t");
        put_escaped(out, entry->help, scdoc_special);

        const char *gap = "\n\n\t";
        char text[CAY_CONF_ALLOWED_BYTES];
        char name[CAY_CONF_NAME_BYTES];
        cay_conf_allowed(entry, text);
        text[0] = (char)toupper((unsigned char)text[0]);
        if (!takes_any_text(entry))
            put_fact(out, &gap, "", "", text);
        if (has_default(entry))
            put_fact(out, &gap, "Default: ", "", entry->fallback);
        cay_conf_spell(entry->key, CAY_CONF_FLAG, name);
        if (cay_conf_may_come_from(entry, CAY_CONF_FLAG))
            put_fact(out, &gap, "Flag: ", "*", name);
        cay_conf_spell(entry->key, CAY_CONF_ENVIRONMENT, name);
        if (cay_conf_may_come_from(entry, CAY_CONF_ENVIRONMENT))
            put_fact(out, &gap, "Environment: ", "*", name);
        cay_buf_append_text(out, "\n\n");
    }
}
