/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "api/limits.h"
#include "cli/output.h"

enum {
    COLUMNS_MAX = 16,
    GAP_COLUMNS = 2,
    TEXT_BYTES_MAX = 16 * CAY_LIMIT_MESSAGE_BYTES,
};

struct cay_table_cell {
    size_t at; /* in the table's text */
    size_t len;
    size_t width;
    enum cay_style style;
};

void cay_table_init(struct cay_table *table, const char *const *titles, size_t column_count)
{
    assert(column_count && column_count <= COLUMNS_MAX);
    *table = (struct cay_table){.titles = titles, .column_count = column_count};
    cay_buf_init(&table->text, TEXT_BYTES_MAX);
}

void cay_table_finish(struct cay_table *table)
{
    free(cay_take_ptr(table->cells));
    cay_buf_finish(&table->text);
}

void cay_table_cell(struct cay_table *table, enum cay_style style, struct cay_str text)
{
    if (table->cell_count == table->cell_cap) {
        table->cell_cap = CAY_MAX(2 * table->cell_cap, (size_t)64);
        table->cells =
            cay_realloc_array(table->cells, table->cell_cap, sizeof(struct cay_table_cell));
    }
    size_t at = table->text.len;
    /* An empty cell would look as if the columns had slipped. */
    cay_output_clean(&table->text, text.len ? text : CAY_STR("-"));
    struct cay_str clean = {table->text.data + at, table->text.len - at};
    table->cells[table->cell_count++] = (struct cay_table_cell){
        .at = at,
        .len = clean.len,
        .width = cay_output_width(clean),
        .style = style,
    };
}

static void print_cell(const struct cay_table *table, struct cay_output *out, size_t column,
                       struct cay_str text, size_t width, size_t column_width, enum cay_style style)
{
    cay_output_text(out, style, text);
    if (column + 1 == table->column_count)
        cay_output_printf(out, "\n");
    else
        cay_output_printf(out, "%*s", (int)(column_width - width + GAP_COLUMNS), "");
}

void cay_table_print(const struct cay_table *table, struct cay_output *out)
{
    assert(table->cell_count % table->column_count == 0);
    size_t widths[COLUMNS_MAX];
    for (size_t i = 0; i < table->column_count; i++)
        widths[i] = strlen(table->titles[i]);
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t *width = &widths[i % table->column_count];
        *width = CAY_MAX(*width, table->cells[i].width);
    }
    for (size_t i = 0; i < table->column_count; i++)
        print_cell(table, out, i, cay_str(table->titles[i]), strlen(table->titles[i]), widths[i],
                   CAY_STYLE_BOLD);
    for (size_t i = 0; i < table->cell_count; i++) {
        const struct cay_table_cell *cell = &table->cells[i];
        size_t column = i % table->column_count;
        print_cell(table, out, column, (struct cay_str){table->text.data + cell->at, cell->len},
                   cell->width, widths[column], cell->style);
    }
}
