/* Arrow columns -> encoded records of the open batches of a topic's partitions, in one pass over the rows.
 *
 * The twin of `python.py`, which says what must come out; tests run both on the same input. Buffers are read where Arrow
 * has them. The loop runs without the interpreter's lock: batches that are full are set aside and become Python
 * objects at the end.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define HEADER_SIZE 61

typedef struct {
    uint8_t *data;
    size_t size, capacity;
    int64_t base_timestamp, max_timestamp;
    int32_t count;
} Open;

typedef struct {
    int32_t partition;
    Open batch;
} Full;

typedef struct {
    PyObject_HEAD
    int32_t partitions;
    Open *open;
    size_t limit;
    int32_t *available;
    int32_t available_count;
    int32_t sticky;
    uint64_t random;
    Full *full;
    size_t full_count, full_capacity;
} Encoder;

/* A column of variable length (binary or string, small or large offsets). */
typedef struct {
    int present, large;
    const uint8_t *validity, *offsets, *data;
    int64_t start;
    Py_buffer views[3];
    int view_count;
} Bytes;

/* A column of numbers. */
typedef struct {
    int present;
    const uint8_t *validity, *data;
    int64_t start;
    Py_buffer views[2];
    int view_count;
} Numbers;

typedef struct {
    const uint8_t *data;
    int64_t size; /* -1: null */
} Piece;

static inline int is_valid(const uint8_t *validity, int64_t index) {
    return validity == NULL || (validity[index >> 3] >> (index & 7) & 1);
}

static inline int64_t offset_at(const uint8_t *offsets, int large, int64_t index) {
    if (large) {
        int64_t value;
        memcpy(&value, offsets + index * 8, 8);
        return value;
    }
    int32_t value;
    memcpy(&value, offsets + index * 4, 4);
    return value;
}

static inline Piece piece_at(const Bytes *column, int64_t row) {
    Piece piece = {NULL, -1};
    int64_t index = row + column->start;
    if (!column->present || !is_valid(column->validity, index)) return piece;
    int64_t first = offset_at(column->offsets, column->large, index);
    piece.size = offset_at(column->offsets, column->large, index + 1) - first;
    piece.data = column->data + first;
    return piece;
}

static inline uint64_t zigzag(int64_t value) { return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63); }

static inline size_t varint_size(int64_t value) {
    uint64_t left = zigzag(value);
    size_t size = 1;
    while (left >>= 7) size++;
    return size;
}

static inline uint8_t *put_varint(uint8_t *target, int64_t value) {
    uint64_t left = zigzag(value);
    while (left >= 0x80) {
        *target++ = (uint8_t)(left | 0x80);
        left >>= 7;
    }
    *target++ = (uint8_t)left;
    return target;
}

static inline size_t piece_size(Piece piece) {
    return varint_size(piece.size) + (piece.size > 0 ? (size_t)piece.size : 0);
}

static inline uint8_t *put_piece(uint8_t *target, Piece piece) {
    target = put_varint(target, piece.size);
    if (piece.size > 0) {
        memcpy(target, piece.data, (size_t)piece.size);
        target += piece.size;
    }
    return target;
}

static uint32_t murmur2(const uint8_t *data, int64_t size) {
    const uint32_t m = 0x5bd1e995u;
    uint32_t h = 0x9747b28cu ^ (uint32_t)size;
    int64_t whole = size & ~(int64_t)3;
    for (int64_t i = 0; i < whole; i += 4) {
        uint32_t k = (uint32_t)data[i] | (uint32_t)data[i + 1] << 8 | (uint32_t)data[i + 2] << 16 |
                     (uint32_t)data[i + 3] << 24;
        k *= m;
        k ^= k >> 24;
        k *= m;
        h = h * m ^ k;
    }
    switch (size & 3) {
    case 3: h ^= (uint32_t)data[whole + 2] << 16; /* fall through */
    case 2: h ^= (uint32_t)data[whole + 1] << 8;  /* fall through */
    case 1: h = (h ^ data[whole]) * m;
    }
    h = (h ^ h >> 13) * m;
    return h ^ h >> 15;
}

static void next_sticky(Encoder *self) {
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    self->sticky = self->available[self->random % (uint64_t)self->available_count];
}

/* Sets an open batch aside as full. Without memory: -1. */
static int set_aside(Encoder *self, int32_t partition) {
    if (self->full_count == self->full_capacity) {
        size_t capacity = self->full_capacity ? self->full_capacity * 2 : 16;
        Full *grown = realloc(self->full, capacity * sizeof(Full));
        if (grown == NULL) return -1;
        self->full = grown;
        self->full_capacity = capacity;
    }
    Full *full = &self->full[self->full_count++];
    full->partition = partition;
    full->batch = self->open[partition];
    memset(&self->open[partition], 0, sizeof(Open));
    return 0;
}

static int make_room(Open *open, size_t size, size_t limit) {
    size_t needed = open->size + size;
    if (needed <= open->capacity) return 0;
    size_t capacity = open->capacity ? open->capacity * 2 : 4096;
    if (capacity > limit) capacity = limit;
    if (capacity < needed) capacity = needed;
    uint8_t *grown = realloc(open->data, capacity);
    if (grown == NULL) return -1;
    open->data = grown;
    open->capacity = capacity;
    return 0;
}

typedef struct {
    Bytes key, value, header_key, header_value;
    Numbers timestamp, partition;
    Numbers lists; /* validity and offsets of the header lists; `data` has the offsets */
    int lists_large;
    const uint8_t *suffix;
    size_t suffix_size;
    int64_t suffix_count;
    int64_t now_ms;
} Columns;

enum { OK = 0, NO_MEMORY = -1, BAD_PARTITION = -2, NULL_HEADER = -3, TOO_LARGE = -4, BAD_TIMESTAMP = -5 };

static int encode_row(Encoder *self, const Columns *columns, int64_t row, int64_t *said) {
    Piece key = piece_at(&columns->key, row), value = piece_at(&columns->value, row);
    int64_t timestamp = columns->now_ms;
    if (columns->timestamp.present && is_valid(columns->timestamp.validity, row + columns->timestamp.start)) {
        int64_t micros;
        memcpy(&micros, columns->timestamp.data + (row + columns->timestamp.start) * 8, 8);
        timestamp = micros / 1000 - (micros % 1000 < 0);
        if (timestamp < 0) {
            *said = timestamp;
            return BAD_TIMESTAMP;
        }
    }
    int64_t first = 0, last = 0;
    size_t rest = columns->suffix_size;
    if (columns->lists.present && is_valid(columns->lists.validity, row + columns->lists.start)) {
        first = offset_at(columns->lists.data, columns->lists_large, row + columns->lists.start);
        last = offset_at(columns->lists.data, columns->lists_large, row + columns->lists.start + 1);
        for (int64_t i = first; i < last; i++) {
            Piece name = piece_at(&columns->header_key, i);
            if (name.size < 0) {
                *said = row;
                return NULL_HEADER;
            }
            rest += piece_size(name) + piece_size(piece_at(&columns->header_value, i));
        }
    }
    int64_t header_count = last - first + columns->suffix_count;
    rest += 1 + piece_size(key) + piece_size(value) + varint_size(header_count);

    int32_t partition = -1;
    int sticks = 0;
    if (columns->partition.present && is_valid(columns->partition.validity, row + columns->partition.start)) {
        memcpy(&partition, columns->partition.data + (row + columns->partition.start) * 4, 4);
        if (partition < 0 || partition >= self->partitions) {
            *said = partition;
            return BAD_PARTITION;
        }
    } else if (key.size >= 0) {
        partition = (int32_t)((murmur2(key.data, key.size) & 0x7fffffffu) % (uint32_t)self->partitions);
    } else {
        partition = self->sticky;
        sticks = 1;
    }
    Open *open = &self->open[partition];
    /* Deltas and the length take at most 10 + 5 + 5 bytes; a batch a little under its limit is as good. */
    if (open->count && HEADER_SIZE + open->size + rest + 20 > self->limit) {
        if (set_aside(self, partition) < 0) return NO_MEMORY;
        if (sticks) {
            next_sticky(self);
            partition = self->sticky;
            open = &self->open[partition];
            if (open->count && HEADER_SIZE + open->size + rest + 20 > self->limit &&
                set_aside(self, partition) < 0)
                return NO_MEMORY;
        }
    }
    if (rest > 0x7ffffff0u) {
        *said = (int64_t)rest;
        return TOO_LARGE;
    }
    if (!open->count) open->base_timestamp = open->max_timestamp = timestamp;
    if (timestamp > open->max_timestamp) open->max_timestamp = timestamp;
    int64_t delta = timestamp - open->base_timestamp;
    size_t body = rest + varint_size(delta) + varint_size(open->count);
    size_t size = body + varint_size((int64_t)body);
    if (make_room(open, size, self->limit) < 0) return NO_MEMORY;
    uint8_t *target = put_varint(open->data + open->size, (int64_t)body);
    *target++ = 0;
    target = put_varint(target, delta);
    target = put_varint(target, open->count);
    target = put_piece(target, key);
    target = put_piece(target, value);
    target = put_varint(target, header_count);
    for (int64_t i = first; i < last; i++) {
        target = put_piece(target, piece_at(&columns->header_key, i));
        target = put_piece(target, piece_at(&columns->header_value, i));
    }
    if (columns->suffix_size) memcpy(target, columns->suffix, columns->suffix_size);
    open->size += size;
    open->count++;
    return OK;
}

/* Full batches as a list of (partition, payload, count, base timestamp, largest timestamp). */
static PyObject *take_full(Encoder *self) {
    PyObject *list = PyList_New((Py_ssize_t)self->full_count);
    if (list == NULL) return NULL;
    for (size_t i = 0; i < self->full_count; i++) {
        Open *batch = &self->full[i].batch;
        PyObject *one = Py_BuildValue("(iy#iLL)", self->full[i].partition, (char *)batch->data, (Py_ssize_t)batch->size,
                                      batch->count, (long long)batch->base_timestamp, (long long)batch->max_timestamp);
        if (one == NULL) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, one);
    }
    for (size_t i = 0; i < self->full_count; i++) free(self->full[i].batch.data);
    self->full_count = 0;
    return list;
}

static int view(PyObject *source, Py_buffer *views, int *count, const uint8_t **target, int64_t needed, const char *what) {
    *target = NULL;
    if (source == Py_None) {
        if (needed > 0) {
            PyErr_Format(PyExc_ValueError, "%s is missing", what);
            return -1;
        }
        return 0;
    }
    if (PyObject_GetBuffer(source, &views[*count], PyBUF_SIMPLE) < 0) return -1;
    Py_buffer *got = &views[(*count)++];
    if (got->len < needed) {
        PyErr_Format(PyExc_ValueError, "%s has %zd bytes, %lld are needed", what, got->len, (long long)needed);
        return -1;
    }
    *target = got->buf;
    return 0;
}

/* (validity or None, offsets, data or None, start, large) */
static int read_bytes(PyObject *source, Bytes *column, int64_t rows) {
    if (source == Py_None) return 0;
    PyObject *validity, *offsets, *data;
    long long start;
    if (!PyArg_ParseTuple(source, "OOOLp", &validity, &offsets, &data, &start, &column->large)) return -1;
    column->start = start;
    int64_t end = start + rows, width = column->large ? 8 : 4;
    if (rows == 0) return 0;
    if (view(validity, column->views, &column->view_count, &column->validity, validity == Py_None ? 0 : (end + 7) / 8,
             "a validity bitmap") < 0)
        return -1;
    if (view(offsets, column->views, &column->view_count, &column->offsets, (end + 1) * width, "an offsets buffer") < 0)
        return -1;
    /* What the offsets say must lie in the data, or a damaged column would be read beyond its end. */
    int64_t before = offset_at(column->offsets, column->large, start);
    for (int64_t i = start; i < end; i++) {
        int64_t after = offset_at(column->offsets, column->large, i + 1);
        if (after < before) {
            PyErr_SetString(PyExc_ValueError, "offsets of a column go backwards");
            return -1;
        }
        before = after;
    }
    if (offset_at(column->offsets, column->large, start) < 0) {
        PyErr_SetString(PyExc_ValueError, "offsets of a column are negative");
        return -1;
    }
    if (view(data, column->views, &column->view_count, &column->data, before, "a data buffer") < 0) return -1;
    column->present = 1;
    return 0;
}

/* (validity or None, data, start) of numbers of `width` bytes; `extra` more than there are rows */
static int read_numbers(PyObject *source, Numbers *column, int64_t rows, int width, int extra) {
    if (source == Py_None) return 0;
    PyObject *validity, *data;
    long long start;
    if (!PyArg_ParseTuple(source, "OOL", &validity, &data, &start)) return -1;
    column->start = start;
    if (rows == 0) return 0;
    if (view(validity, column->views, &column->view_count, &column->validity,
             validity == Py_None ? 0 : (start + rows + 7) / 8, "a validity bitmap") < 0)
        return -1;
    if (view(data, column->views, &column->view_count, &column->data, (start + rows + extra) * width, "a column") < 0)
        return -1;
    column->present = 1;
    return 0;
}

/* ((validity or None, offsets, start), large, keys, values) */
static int read_headers(PyObject *source, Columns *columns, int64_t rows) {
    if (source == Py_None) return 0;
    PyObject *lists, *keys, *values;
    if (!PyArg_ParseTuple(source, "OpOO", &lists, &columns->lists_large, &keys, &values)) return -1;
    int width = columns->lists_large ? 8 : 4;
    if (read_numbers(lists, &columns->lists, rows, width, 1) < 0) return -1;
    if (!columns->lists.present) return 0;
    int64_t start = columns->lists.start, before = offset_at(columns->lists.data, columns->lists_large, start);
    for (int64_t i = start; i < start + rows; i++) {
        int64_t after = offset_at(columns->lists.data, columns->lists_large, i + 1);
        if (before < 0 || after < before) {
            PyErr_SetString(PyExc_ValueError, "offsets of the headers go backwards");
            return -1;
        }
        before = after;
    }
    if (read_bytes(keys, &columns->header_key, before) < 0) return -1;
    return read_bytes(values, &columns->header_value, before);
}

static void release(Columns *columns) {
    Bytes *bytes[] = {&columns->key, &columns->value, &columns->header_key, &columns->header_value};
    Numbers *numbers[] = {&columns->timestamp, &columns->partition, &columns->lists};
    for (size_t i = 0; i < 4; i++)
        for (int j = 0; j < bytes[i]->view_count; j++) PyBuffer_Release(&bytes[i]->views[j]);
    for (size_t i = 0; i < 3; i++)
        for (int j = 0; j < numbers[i]->view_count; j++) PyBuffer_Release(&numbers[i]->views[j]);
}

static PyObject *refuse(int code, int64_t said, int32_t partitions) {
    switch (code) {
    case BAD_PARTITION:
        return PyErr_Format(PyExc_ValueError, "there is no partition %lld, the topic has %d", (long long)said,
                            partitions);
    case NULL_HEADER:
        return PyErr_Format(PyExc_ValueError, "the header key of row %lld is null", (long long)said);
    case TOO_LARGE:
        return PyErr_Format(PyExc_ValueError, "a record of %lld bytes is too large", (long long)said);
    case BAD_TIMESTAMP:
        return PyErr_Format(PyExc_ValueError, "the timestamp %lld lies before 1970", (long long)said);
    default: return PyErr_NoMemory();
    }
}

static PyObject *Encoder_encode(Encoder *self, PyObject *arguments, PyObject *names) {
    static char *known[] = {"rows",      "key",    "value",        "headers", "timestamp",
                            "partition", "suffix", "suffix_count", "now_ms",  NULL};
    PyObject *key, *value, *headers, *timestamp, *partition;
    Py_buffer suffix;
    long long rows, suffix_count, now_ms;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "LOOOOOy*LL", known, &rows, &key, &value, &headers, &timestamp,
                                     &partition, &suffix, &suffix_count, &now_ms))
        return NULL;
    Columns columns;
    memset(&columns, 0, sizeof columns);
    columns.suffix = suffix.buf;
    columns.suffix_size = (size_t)suffix.len;
    columns.suffix_count = suffix_count;
    columns.now_ms = now_ms;
    PyObject *result = NULL;
    if (read_bytes(key, &columns.key, rows) == 0 && read_bytes(value, &columns.value, rows) == 0 &&
        read_headers(headers, &columns, rows) == 0 && read_numbers(timestamp, &columns.timestamp, rows, 8, 0) == 0 &&
        read_numbers(partition, &columns.partition, rows, 4, 0) == 0) {
        int code = OK;
        int64_t said = 0;
        Py_BEGIN_ALLOW_THREADS;
        for (int64_t row = 0; row < rows && code == OK; row++) code = encode_row(self, &columns, row, &said);
        Py_END_ALLOW_THREADS;
        result = code == OK ? take_full(self) : refuse(code, said, self->partitions);
    }
    release(&columns);
    PyBuffer_Release(&suffix);
    return result;
}

static PyObject *Encoder_finish(Encoder *self, PyObject *Py_UNUSED(ignored)) {
    for (int32_t i = 0; i < self->partitions; i++)
        if (self->open[i].count && set_aside(self, i) < 0) return PyErr_NoMemory();
    next_sticky(self);
    return take_full(self);
}

static PyObject *Encoder_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    static char *known[] = {"partitions", "limit", "available", "seed", NULL};
    int partitions;
    Py_ssize_t limit;
    PyObject *available;
    unsigned long long seed;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "inO!K", known, &partitions, &limit, &PyTuple_Type, &available,
                                     &seed))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(available);
    if (partitions < 1 || limit < HEADER_SIZE || count < 1)
        return PyErr_Format(PyExc_ValueError, "an encoder needs partitions and room for a batch");
    Encoder *self = (Encoder *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->partitions = partitions;
    self->limit = (size_t)limit;
    self->random = seed ? seed : 1;
    self->open = calloc((size_t)partitions, sizeof(Open));
    self->available = calloc((size_t)count, sizeof(int32_t));
    self->available_count = (int32_t)count;
    if (self->open == NULL || self->available == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        long one = PyLong_AsLong(PyTuple_GET_ITEM(available, i));
        if (one < 0 || one >= partitions) {
            Py_DECREF(self);
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "there is no partition %ld", one);
        }
        self->available[i] = (int32_t)one;
    }
    next_sticky(self);
    return (PyObject *)self;
}

static void Encoder_dealloc(Encoder *self) {
    if (self->open != NULL)
        for (int32_t i = 0; i < self->partitions; i++) free(self->open[i].data);
    for (size_t i = 0; i < self->full_count; i++) free(self->full[i].batch.data);
    free(self->open);
    free(self->full);
    free(self->available);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef Encoder_methods[] = {
    {"encode", (PyCFunction)(void (*)(void))Encoder_encode, METH_VARARGS | METH_KEYWORDS,
     "Adds rows; returns the batches that became full."},
    {"finish", (PyCFunction)Encoder_finish, METH_NOARGS, "Returns what is left in open batches."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject EncoderType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "ottla.client.columns.encode._native.Encoder",
    .tp_basicsize = sizeof(Encoder),
    .tp_dealloc = (destructor)Encoder_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The open batches of one topic.",
    .tp_methods = Encoder_methods,
    .tp_new = Encoder_new,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_native", "Arrow columns to encoded records.", -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) {
    if (PyType_Ready(&EncoderType) < 0) return NULL;
    PyObject *self = PyModule_Create(&module);
    if (self == NULL) return NULL;
    Py_INCREF(&EncoderType);
    if (PyModule_AddObject(self, "Encoder", (PyObject *)&EncoderType) < 0) {
        Py_DECREF(&EncoderType);
        Py_DECREF(self);
        return NULL;
    }
    return self;
}
