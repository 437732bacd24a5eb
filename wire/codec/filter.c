/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/filter.h"

#include "wire/codec/props_index.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER_LEN_MAX 32u
#define STEP_BYTES 64u /* of a text that is compared */
#define NODES_MAX (3u * AMB_FILTER_TESTS_MAX)

enum node_kind {
    NODE_AND,
    NODE_OR,
    NODE_NOT,
    NODE_HAS,
    NODE_TEXT,
    NODE_NUMBER
};

enum test_op {
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_PREFIX
};

struct node {
    enum node_kind kind;
    enum test_op op;
    uint16_t left, right; /* of and, or; left of not */
    const char *name;     /* of a test: in `text` */
    uint32_t name_len, name_hash;
    const char *value; /* TEXT */
    uint32_t value_len;
    double number;
};

struct amb_filter {
    uint32_t count;
    uint16_t root;
    struct node nodes[NODES_MAX];
    char text[2 * (AMB_FILTER_TEXT_MAX + AMB_FILTER_TESTS_MAX)]; /* names and values, each with a
                                                                     NUL */
};

struct parser {
    const char *text;
    size_t len, at;
    size_t used; /* of the filter's text */
    unsigned tests, depth;
    struct amb_filter *filter;
    const char *why; /* not NULL: it has failed */
    size_t failed_at;
};

/* Returns false, so that callers can. */
static bool refuse(struct parser *p, const char *why)
{
    if (p->why == NULL) {
        p->why = why;
        p->failed_at = p->at;
    }
    return false;
}

static void skip_space(struct parser *p)
{
    while (p->at < p->len && (p->text[p->at] == ' ' || p->text[p->at] == '\t' ||
                              p->text[p->at] == '\n' || p->text[p->at] == '\r')) {
        p->at++;
    }
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_-.$", c) != NULL);
}

static bool take_char(struct parser *p, char c)
{
    skip_space(p);
    if (p->at < p->len && p->text[p->at] == c) {
        p->at++;
        return true;
    }
    return false;
}

static bool take_word(struct parser *p, const char *word)
{
    size_t len = strlen(word);
    skip_space(p);
    if (p->len - p->at < len || memcmp(p->text + p->at, word, len) != 0 ||
        (p->at + len < p->len && is_name_char(p->text[p->at + len]))) {
        return false;
    }
    p->at += len;
    return true;
}

static struct node *add_node(struct parser *p, enum node_kind kind, uint16_t *out)
{
    struct amb_filter *filter = p->filter;
    if (filter->count == NODES_MAX) {
        (void)refuse(p, "too many conditions");
        return NULL;
    }
    *out = (uint16_t)filter->count;
    struct node *node = &filter->nodes[filter->count++];
    *node = (struct node){.kind = kind};
    return node;
}

static void keep_char(struct parser *p, char c)
{
    p->filter->text[p->used++] = c; /* The kept text is never longer than the read one. */
}

/* The text between quotes; a doubled quote is one of it. */
static bool take_quoted(struct parser *p, char quote, const char **out, size_t *len)
{
    *out = p->filter->text + p->used;
    size_t start = p->used;
    while (p->at < p->len) {
        char c = p->text[p->at++];
        if (c == quote) {
            if (p->at == p->len || p->text[p->at] != quote) {
                *len = p->used - start;
                keep_char(p, '\0');
                return true;
            }
            p->at++;
        }
        keep_char(p, c);
    }
    return refuse(p, "a quote is not closed");
}

static bool take_name(struct parser *p, const char **out)
{
    size_t len;
    if (take_char(p, '"')) {
        if (!take_quoted(p, '"', out, &len)) {
            return false;
        }
    } else {
        *out = p->filter->text + p->used;
        size_t start = p->at;
        while (p->at < p->len && is_name_char(p->text[p->at])) {
            keep_char(p, p->text[p->at++]);
        }
        len = p->at - start;
        keep_char(p, '\0');
    }
    if (len == 0 || len > AMB_PROP_NAME_MAX) {
        return refuse(p, "the name of a property is expected here, 1 to 255 bytes");
    }
    return true;
}

static bool take_op(struct parser *p, enum test_op *out)
{
    static const struct {
        char text[3];
        enum test_op op;
    } ops[] = {{"!=", OP_NE}, {"<=", OP_LE}, {">=", OP_GE}, {"^=", OP_PREFIX},
               {"=", OP_EQ},  {"<", OP_LT},  {">", OP_GT}};
    skip_space(p);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        size_t len = strlen(ops[i].text);
        if (p->len - p->at >= len && memcmp(p->text + p->at, ops[i].text, len) == 0) {
            p->at += len;
            *out = ops[i].op;
            return true;
        }
    }
    return refuse(p, "one of = != < <= > >= ^= is expected here");
}

/* All of it is a decimal number. */
static bool read_number(const char *text, size_t len, double *out)
{
    char copy[NUMBER_LEN_MAX + 1];
    if (len == 0 || len > NUMBER_LEN_MAX) {
        return false;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (strspn(copy, "0123456789+-.eE") != len) {
        return false;
    }
    char *end;
    *out = strtod(copy, &end);
    return end == copy + len;
}

static bool take_value(struct parser *p, struct node *node)
{
    skip_space(p);
    size_t len;
    if (take_char(p, '\'')) {
        node->kind = NODE_TEXT;
        if (!take_quoted(p, '\'', &node->value, &len)) {
            return false;
        }
        node->value_len = (uint32_t)len;
        return true;
    }
    size_t start = p->at;
    while (p->at < p->len && p->text[p->at] != '\0' &&
           strchr("0123456789+-.eE", p->text[p->at]) != NULL) {
        p->at++;
    }
    if (!read_number(p->text + start, p->at - start, &node->number)) {
        p->at = start;
        return refuse(p, "a value is expected here: 'text' or a number");
    }
    node->kind = NODE_NUMBER;
    return node->op != OP_PREFIX || refuse(p, "^= takes a text in single quotes");
}

static bool take_test(struct parser *p, uint16_t *out)
{
    if (++p->tests > AMB_FILTER_TESTS_MAX) {
        return refuse(p, "more than 32 tests");
    }
    bool is_has = take_word(p, "has");
    struct node *node = add_node(p, NODE_HAS, out);
    if (node == NULL || !take_name(p, &node->name)) {
        return false;
    }
    node->name_len = (uint32_t)strlen(node->name);
    node->name_hash = amb_props_name_hash(node->name, node->name_len);
    return is_has || (take_op(p, &node->op) && take_value(p, node));
}

static bool take_or(struct parser *p, uint16_t *out);

static bool take_term(struct parser *p, uint16_t *out)
{
    if (p->depth == AMB_FILTER_DEPTH_MAX) {
        return refuse(p, "nested more than 16 deep");
    }
    p->depth++;
    bool is_taken;
    if (take_word(p, "not")) {
        struct node *node = add_node(p, NODE_NOT, out);
        is_taken = node != NULL && take_term(p, &node->left);
    } else if (take_char(p, '(')) {
        is_taken = take_or(p, out) && (take_char(p, ')') || refuse(p, "a ')' is missing here"));
    } else {
        is_taken = take_test(p, out);
    }
    p->depth--;
    return is_taken;
}

static bool take_joined(struct parser *p, enum node_kind kind, uint16_t *out)
{
    bool is_and = kind == NODE_AND;
    if (!(is_and ? take_term(p, out) : take_joined(p, NODE_AND, out))) {
        return false;
    }
    while (take_word(p, is_and ? "and" : "or")) {
        uint16_t left = *out;
        struct node *node = add_node(p, kind, out);
        if (node == NULL) {
            return false;
        }
        node->left = left;
        if (!(is_and ? take_term(p, &node->right) : take_joined(p, NODE_AND, &node->right))) {
            return false;
        }
    }
    return true;
}

static bool take_or(struct parser *p, uint16_t *out)
{
    return take_joined(p, NODE_OR, out);
}

enum amb_status amb_filter_parse(const char *text, size_t len, struct amb_filter **out,
                                 struct amb_filter_error *error)
{
    struct parser p = {.text = text, .len = len};
    *out = NULL;
    if (len > AMB_FILTER_TEXT_MAX) {
        *error = (struct amb_filter_error){.why = "it is longer than 1,024 bytes"};
        return AMB_EINVAL;
    }
    p.filter = calloc(1, sizeof(*p.filter));
    if (p.filter == NULL) {
        return AMB_ENOMEM;
    }
    bool is_taken = take_or(&p, &p.filter->root);
    skip_space(&p);
    if (is_taken && p.at < p.len) {
        is_taken = refuse(&p, "'and', 'or' or the end is expected here");
    }
    if (!is_taken) {
        *error = (struct amb_filter_error){.why = p.why, .at = p.failed_at};
        free(p.filter);
        return AMB_EINVAL;
    }
    *out = p.filter;
    return AMB_OK;
}

void amb_filter_free(struct amb_filter **filter)
{
    free(*filter);
    *filter = NULL;
}

size_t amb_filter_heap(const struct amb_filter *filter)
{
    return sizeof(*filter);
}

/* A test's sides: below 0, 0, above 0. */
static bool is_true(enum test_op op, int order)
{
    switch (op) {
    case OP_EQ:
        return order == 0;
    case OP_NE:
        return order != 0;
    case OP_LT:
        return order < 0;
    case OP_LE:
        return order <= 0;
    case OP_GT:
        return order > 0;
    case OP_GE:
        return order >= 0;
    case OP_PREFIX:
        break;
    }
    return false;
}

static bool match_text(const struct node *node, const struct amb_prop_view *prop)
{
    bool is_shorter = prop->value_len < node->value_len;
    size_t common = is_shorter ? prop->value_len : node->value_len;
    int order = memcmp(prop->value, node->value, common);
    if (node->op == OP_PREFIX) {
        return order == 0 && !is_shorter;
    }
    if (order == 0) {
        order = is_shorter ? -1 : prop->value_len > node->value_len;
    }
    return is_true(node->op, order);
}

static bool find_prop(const struct node *node, struct amb_filter_message *message,
                      struct amb_prop_view *out)
{
    message->steps++;
    if (message->index != NULL) {
        return amb_props_index_find(message->index, node->name, node->name_len, node->name_hash,
                                    out);
    }
    size_t pos = 0;
    while (amb_props_next(message->props, message->len, &pos, out)) {
        message->steps++;
        if (out->name_len == node->name_len && memcmp(out->name, node->name, out->name_len) == 0) {
            return true;
        }
    }
    return false;
}

static bool match_test(const struct node *node, struct amb_filter_message *message)
{
    struct amb_prop_view prop;
    if (!find_prop(node, message, &prop)) {
        return false;
    }
    if (node->kind == NODE_TEXT) {
        message->steps += node->value_len / STEP_BYTES;
        return match_text(node, &prop);
    }
    double number = 0;
    return node->kind == NODE_HAS ||
           (read_number((const char *)prop.value, prop.value_len, &number) &&
            is_true(node->op, (number > node->number) - (number < node->number)));
}

/* As deep as there are nodes, which are few. */
static bool match_node(const struct amb_filter *filter, uint16_t index,
                       struct amb_filter_message *message)
{
    const struct node *node = &filter->nodes[index];
    switch (node->kind) {
    case NODE_AND:
        return match_node(filter, node->left, message) && match_node(filter, node->right, message);
    case NODE_OR:
        return match_node(filter, node->left, message) || match_node(filter, node->right, message);
    case NODE_NOT:
        return !match_node(filter, node->left, message);
    case NODE_HAS:
    case NODE_TEXT:
    case NODE_NUMBER:
        break;
    }
    return match_test(node, message);
}

bool amb_filter_match_message(const struct amb_filter *filter, struct amb_filter_message *message)
{
    return match_node(filter, filter->root, message);
}

bool amb_filter_match(const struct amb_filter *filter, const uint8_t *props, uint32_t props_len)
{
    struct amb_filter_message message = {.props = props, .len = props_len};
    return amb_filter_match_message(filter, &message);
}
