/* Records straight into Arrow buffers: the compiled twin of twin.py, with the same results.
 *
 * `Columns` grows the buffers of an Arrow record batch while the payloads of record batches are added to it; `finish`
 * hands the buffers over without copying them and begins anew. Every length is checked against the bytes that are left
 * before anything is read or reserved, so that no input whatsoever reads or writes outside a buffer.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define RECORD_SIZE_MIN 7
#define VARINT_BYTES_MAX 5
#define VARLONG_BYTES_MAX 10

/* ---- Memory that is used again. ---- */

/* Fresh memory costs a page fault for every 4 KiB, more than the copying. So the large blocks of the last batches are kept
 * for the next ones, up to a bound. Only code that holds the interpreter's lock comes here. */
#define SPARE_SIZE_MIN (64 * 1024)
#define SPARE_BYTES_MAX (32 * 1024 * 1024)
#define SPARES_MAX 32

typedef struct {
    char *bytes;
    size_t room;
} Spare;

static Spare spares[SPARES_MAX];
static int spare_count;
static size_t spare_bytes;

static void release(char *bytes, size_t room)
{
    if (room < SPARE_SIZE_MIN || spare_count == SPARES_MAX || spare_bytes + room > SPARE_BYTES_MAX) {
        PyMem_RawFree(bytes);
        return;
    }
    spares[spare_count++] = (Spare){bytes, room};
    spare_bytes += room;
}

/* The largest spare block, if it has the wanted room: it has to grow least. */
static int take_spare(size_t wanted, Spare *found)
{
    int best = -1;
    for (int index = 0; index < spare_count; index++) {
        if (spares[index].room >= wanted && (best < 0 || spares[index].room > spares[best].room)) {
            best = index;
        }
    }
    if (best < 0) {
        return 0;
    }
    *found = spares[best];
    spares[best] = spares[--spare_count];
    spare_bytes -= found->room;
    return 1;
}

/* ---- A block of bytes that Python may look at, and frees. ---- */

typedef struct {
    PyObject_HEAD
    char *bytes;
    Py_ssize_t size;
    size_t room;
} Block;

static void block_dealloc(Block *self)
{
    release(self->bytes, self->room);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static int block_getbuffer(Block *self, Py_buffer *view, int flags)
{
    static char nothing;
    return PyBuffer_FillInfo(view, (PyObject *)self, self->bytes ? self->bytes : &nothing, self->size, 1, flags);
}

static PyType_Slot block_slots[] = {
    {Py_tp_dealloc, block_dealloc},
    {Py_bf_getbuffer, block_getbuffer},
    {Py_tp_doc, "Bytes that nobody changes any more."},
    {0, NULL},
};

static PyType_Spec block_spec = {
    "ottla.client.columns.decode._native.Block", sizeof(Block), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, block_slots,
};

/* ---- Bytes that grow. ---- */

typedef struct {
    char *bytes;
    size_t size;
    size_t room;
} Growing;

static int reserve(Growing *one, size_t more)
{
    size_t wanted = one->size + more;
    if (wanted <= one->room) {
        return 0;
    }
    Spare spare;
    if (one->bytes == NULL && wanted >= SPARE_SIZE_MIN && take_spare(wanted, &spare)) {
        one->bytes = spare.bytes;
        one->room = spare.room;
        return 0;
    }
    size_t room = one->room + one->room / 2;
    if (room < wanted) {
        room = wanted;
    }
    if (room < 1024) {
        room = 1024;
    }
    char *bytes = PyMem_RawRealloc(one->bytes, room);
    if (bytes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    one->bytes = bytes;
    one->room = room;
    return 0;
}

static void clear(Growing *one)
{
    release(one->bytes, one->room);
    memset(one, 0, sizeof *one);
}

/* The room must have been reserved. */
static inline void put_int32(Growing *one, int32_t value)
{
    memcpy(one->bytes + one->size, &value, sizeof value);
    one->size += sizeof value;
}

static inline void put_int64(Growing *one, int64_t value)
{
    memcpy(one->bytes + one->size, &value, sizeof value);
    one->size += sizeof value;
}

static inline void put_bytes(Growing *one, const uint8_t *bytes, size_t size)
{
    if (size) {
        memcpy(one->bytes + one->size, bytes, size);
        one->size += size;
    }
}

/* A column of byte strings that may be null: Arrow's validity bits, offsets and data. */
typedef struct {
    Growing validity;
    Growing offsets;
    Growing data;
    int64_t rows;
    int64_t nulls;
} Strings;

static int strings_reserve(Strings *one, size_t rows, size_t bytes)
{
    if (bytes > (size_t)INT32_MAX || one->data.size + bytes > (size_t)INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "more bytes than one Arrow batch can hold");
        return -1;
    }
    size_t bits = ((size_t)one->rows + rows + 7) / 8;
    size_t before = one->validity.size;
    if (bits > before) {
        if (reserve(&one->validity, bits - before) < 0) {
            return -1;
        }
        memset(one->validity.bytes + before, 0, bits - before);
        one->validity.size = bits;
    }
    if (reserve(&one->offsets, (rows + 1) * sizeof(int32_t)) < 0 || reserve(&one->data, bytes) < 0) {
        return -1;
    }
    if (one->offsets.size == 0) {
        put_int32(&one->offsets, 0);
    }
    return 0;
}

static inline void strings_put(Strings *one, const uint8_t *bytes, int64_t size)
{
    if (size >= 0) {
        one->validity.bytes[one->rows >> 3] |= (char)(1 << (one->rows & 7));
        put_bytes(&one->data, bytes, (size_t)size);
    } else {
        one->nulls++;
    }
    put_int32(&one->offsets, (int32_t)one->data.size);
    one->rows++;
}

static void strings_clear(Strings *one)
{
    clear(&one->validity);
    clear(&one->offsets);
    clear(&one->data);
    one->rows = one->nulls = 0;
}

/* ---- Reading. ---- */

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Cursor;

/* 0, or -1 where the bytes end inside the number or it is longer than it may be. */
static inline int read_varint(Cursor *cursor, int bytes_max, int64_t *value)
{
    const uint8_t *at = cursor->at;
    if (at >= cursor->end) {
        return -1;
    }
    uint64_t found = *at++;
    if (found >= 0x80) {
        found &= 0x7f;
        int shift = 7;
        for (;;) {
            if (at >= cursor->end || shift >= 7 * bytes_max) {
                return -1;
            }
            uint8_t byte = *at++;
            if (shift == 63 && byte > 1) {
                return -1;
            }
            found |= (uint64_t)(byte & 0x7f) << shift;
            if (byte < 0x80) {
                break;
            }
            shift += 7;
        }
    }
    cursor->at = at;
    *value = (int64_t)(found >> 1) ^ -(int64_t)(found & 1);
    return 0;
}

/* ---- Columns. ---- */

typedef struct {
    PyObject_HEAD
    int with_headers;
    int64_t rows;
    Strings keys;
    Strings values;
    Growing offsets;
    Growing timestamps;
    Growing types;
    Growing header_offsets;
    Strings header_keys;
    Strings header_values;
} Columns;

typedef struct {
    PyTypeObject *block_type;
    PyTypeObject *columns_type;
} State;

static void columns_reset(Columns *self)
{
    self->rows = 0;
    strings_clear(&self->keys);
    strings_clear(&self->values);
    clear(&self->offsets);
    clear(&self->timestamps);
    clear(&self->types);
    clear(&self->header_offsets);
    strings_clear(&self->header_keys);
    strings_clear(&self->header_values);
}

static PyObject *columns_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"with_headers", NULL};
    int with_headers = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p", names, &with_headers)) {
        return NULL;
    }
    Columns *self = (Columns *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->with_headers = with_headers;
    }
    return (PyObject *)self;
}

static void columns_dealloc(Columns *self)
{
    columns_reset(self);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* A header's name must be UTF-8 for Arrow; what is not is replaced, as Java clients do. */
static int put_name(Strings *names, const uint8_t *bytes, int64_t size)
{
    int64_t at = 0;
    while (at < size && bytes[at] < 0x80) {
        at++;
    }
    if (at == size) {
        if (strings_reserve(names, 1, (size_t)size) < 0) {
            return -1;
        }
        strings_put(names, bytes, size);
        return 0;
    }
    PyObject *text = PyUnicode_DecodeUTF8((const char *)bytes, (Py_ssize_t)size, "replace");
    if (text == NULL) {
        return -1;
    }
    Py_ssize_t length;
    const char *valid = PyUnicode_AsUTF8AndSize(text, &length);
    int result = -1;
    if (valid != NULL && strings_reserve(names, 1, (size_t)length) == 0) {
        strings_put(names, (const uint8_t *)valid, length);
        result = 0;
    }
    Py_DECREF(text);
    return result;
}

/* Reads the headers of one record, and keeps them if they are wanted. Returns an error's text, "" for one that is set. */
static const char *take_headers(Columns *self, Cursor *cursor, int keep)
{
    int64_t count;
    if (read_varint(cursor, VARINT_BYTES_MAX, &count) < 0) {
        return "the bytes end inside a record";
    }
    if (count < 0 || count > (cursor->end - cursor->at) / 2) {
        return "a record claims more headers than it has bytes for";
    }
    for (int64_t number = 0; number < count; number++) {
        int64_t name_size, value_size;
        if (read_varint(cursor, VARINT_BYTES_MAX, &name_size) < 0) {
            return "the bytes end inside a header";
        }
        if (name_size < 0 || name_size >= cursor->end - cursor->at) {
            return "a header's name does not fit into its record";
        }
        const uint8_t *name = cursor->at;
        cursor->at += name_size;
        if (read_varint(cursor, VARINT_BYTES_MAX, &value_size) < 0) {
            return "the bytes end inside a header";
        }
        if (value_size < -1 || value_size > cursor->end - cursor->at) {
            return "a header's value does not fit into its record";
        }
        if (keep) {
            size_t room = value_size > 0 ? (size_t)value_size : 0;
            if (put_name(&self->header_keys, name, name_size) < 0 ||
                strings_reserve(&self->header_values, 1, room) < 0) {
                return "";
            }
            strings_put(&self->header_values, cursor->at, value_size);
        }
        if (value_size > 0) {
            cursor->at += value_size;
        }
    }
    return NULL;
}

typedef struct {
    int64_t count;
    int64_t base_offset;
    int64_t base_timestamp;
    int64_t append_timestamp;
    int uses_append_time;
    int64_t first;
    int64_t end;
} Span;

static inline int64_t wrapping_add(int64_t left, int64_t right)
{
    return (int64_t)((uint64_t)left + (uint64_t)right);
}

static inline int64_t microseconds(int64_t milliseconds)
{
    if (milliseconds > INT64_MAX / 1000) {
        return INT64_MAX;
    }
    return milliseconds < INT64_MIN / 1000 ? INT64_MIN : milliseconds * 1000;
}

/* One record, whose length is known to lie within the payload. */
static const char *take_record(Columns *self, Cursor *record, const Span *span)
{
    int64_t timestamp_delta, offset_delta, key_size, value_size;
    record->at++;
    if (read_varint(record, VARLONG_BYTES_MAX, &timestamp_delta) < 0 ||
        read_varint(record, VARINT_BYTES_MAX, &offset_delta) < 0 ||
        read_varint(record, VARINT_BYTES_MAX, &key_size) < 0) {
        return "the bytes end inside a record";
    }
    if (key_size < -1 || key_size >= record->end - record->at) {
        return "a key does not fit into its record";
    }
    const uint8_t *key = record->at;
    if (key_size > 0) {
        record->at += key_size;
    }
    if (read_varint(record, VARINT_BYTES_MAX, &value_size) < 0) {
        return "the bytes end inside a record";
    }
    if (value_size < -1 || value_size >= record->end - record->at) {
        return "a value does not fit into its record";
    }
    const uint8_t *value = record->at;
    if (value_size > 0) {
        record->at += value_size;
    }
    int64_t offset = wrapping_add(span->base_offset, offset_delta);
    int keep = offset >= span->first && offset < span->end;
    const char *wrong = take_headers(self, record, keep && self->with_headers);
    if (wrong != NULL) {
        return wrong;
    }
    if (record->at != record->end) {
        return "a record is longer than its fields";
    }
    if (keep) {
        strings_put(&self->keys, key, key_size);
        strings_put(&self->values, value, value_size);
        put_int64(&self->offsets, offset);
        int64_t timestamp = span->uses_append_time ? span->append_timestamp
                                                   : wrapping_add(span->base_timestamp, timestamp_delta);
        put_int64(&self->timestamps, microseconds(timestamp));
        put_int32(&self->types, span->uses_append_time);
        if (self->with_headers) {
            put_int32(&self->header_offsets, (int32_t)self->header_keys.rows);
        }
        self->rows++;
    }
    return NULL;
}

static const char *take_payload(Columns *self, Cursor *payload, const Span *span)
{
    size_t size = (size_t)(payload->end - payload->at);
    if (span->count < 0 || span->count > (int64_t)(size / RECORD_SIZE_MIN)) {
        return "a batch claims more records than it has bytes for";
    }
    size_t rows = (size_t)span->count;
    if (strings_reserve(&self->keys, rows, size) < 0 || strings_reserve(&self->values, rows, size) < 0 ||
        reserve(&self->offsets, rows * sizeof(int64_t)) < 0 || reserve(&self->timestamps, rows * sizeof(int64_t)) < 0 ||
        reserve(&self->types, rows * sizeof(int32_t)) < 0) {
        return "";
    }
    if (self->with_headers) {
        if (reserve(&self->header_offsets, (rows + 1) * sizeof(int32_t)) < 0) {
            return "";
        }
        if (self->header_offsets.size == 0) {
            put_int32(&self->header_offsets, 0);
        }
    }
    for (int64_t number = 0; number < span->count; number++) {
        int64_t length;
        if (read_varint(payload, VARINT_BYTES_MAX, &length) < 0) {
            return "the bytes end inside a record";
        }
        if (length < RECORD_SIZE_MIN - 1 || length > payload->end - payload->at) {
            return "a record claims more bytes than are left";
        }
        Cursor record = {payload->at, payload->at + length};
        const char *wrong = take_record(self, &record, span);
        if (wrong != NULL) {
            return wrong;
        }
        payload->at += length;
    }
    return payload->at == payload->end ? NULL : "bytes follow the last record of a batch";
}

static PyObject *columns_add(Columns *self, PyObject *args)
{
    Py_buffer payload;
    Span span;
    long long count, base_offset, base_timestamp, append_timestamp, first, end;
    if (!PyArg_ParseTuple(args, "y*LLLpLLL", &payload, &count, &base_offset, &base_timestamp, &span.uses_append_time,
                          &append_timestamp, &first, &end)) {
        return NULL;
    }
    span.count = count;
    span.base_offset = base_offset;
    span.base_timestamp = base_timestamp;
    span.append_timestamp = append_timestamp;
    span.first = first;
    span.end = end;
    Cursor cursor = {payload.buf, (const uint8_t *)payload.buf + payload.len};
    const char *wrong = take_payload(self, &cursor, &span);
    PyBuffer_Release(&payload);
    if (wrong != NULL) {
        /* Half a batch is of no use to anybody. */
        columns_reset(self);
        if (*wrong) {
            PyErr_SetString(PyExc_ValueError, wrong);
        }
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Hands bytes over to Python; the growing ones are empty afterwards. */
static PyObject *handed_over(State *state, Growing *one)
{
    Block *block = (Block *)state->block_type->tp_alloc(state->block_type, 0);
    if (block != NULL) {
        block->bytes = one->bytes;
        block->size = (Py_ssize_t)one->size;
        block->room = one->room;
        memset(one, 0, sizeof *one);
    }
    return (PyObject *)block;
}

static PyObject *strings_handed_over(State *state, Strings *one)
{
    long long nulls = one->nulls;
    PyObject *validity = handed_over(state, &one->validity);
    PyObject *offsets = handed_over(state, &one->offsets);
    PyObject *data = handed_over(state, &one->data);
    strings_clear(one);
    if (validity == NULL || offsets == NULL || data == NULL) {
        Py_XDECREF(validity);
        Py_XDECREF(offsets);
        Py_XDECREF(data);
        return NULL;
    }
    return Py_BuildValue("(LNNN)", nulls, validity, offsets, data);
}

static PyObject *columns_finish(Columns *self, PyTypeObject *defining, PyObject *const *args, Py_ssize_t count,
                                PyObject *names)
{
    (void)args;
    if (count || (names != NULL && PyTuple_GET_SIZE(names))) {
        PyErr_SetString(PyExc_TypeError, "finish() takes no arguments");
        return NULL;
    }
    State *state = PyType_GetModuleState(defining);
    if (state == NULL) {
        return NULL;
    }
    PyObject *found = PyTuple_New(9);
    if (found == NULL) {
        return NULL;
    }
    PyObject *items[9];
    items[0] = PyLong_FromLongLong(self->rows);
    items[1] = strings_handed_over(state, &self->keys);
    items[2] = strings_handed_over(state, &self->values);
    items[3] = handed_over(state, &self->offsets);
    items[4] = handed_over(state, &self->timestamps);
    items[5] = handed_over(state, &self->types);
    items[6] = handed_over(state, &self->header_offsets);
    items[7] = strings_handed_over(state, &self->header_keys);
    items[8] = strings_handed_over(state, &self->header_values);
    columns_reset(self);
    int failed = 0;
    for (int index = 0; index < 9; index++) {
        failed |= items[index] == NULL;
        PyTuple_SET_ITEM(found, index, items[index]);
    }
    if (failed) {
        Py_DECREF(found);
        return NULL;
    }
    return found;
}

static PyObject *columns_rows(Columns *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(self->rows);
}

static PyObject *columns_size(Columns *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(self->keys.data.size + self->values.data.size + self->header_keys.data.size +
                             self->header_values.data.size);
}

static PyMethodDef columns_methods[] = {
    {"add", (PyCFunction)columns_add, METH_VARARGS,
     "add(payload, count, base_offset, base_timestamp, uses_append_time, append_timestamp, first, end)\n--\n\n"
     "Takes the records of an uncompressed payload whose offsets lie from first up to and without end."},
    {"finish", (PyCFunction)(void (*)(void))columns_finish, METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
     "finish()\n--\n\nThe buffers of what was added; begins anew."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef columns_properties[] = {
    {"rows", (getter)columns_rows, NULL, "How many records there are.", NULL},
    {"size", (getter)columns_size, NULL, "How many bytes of keys, values and headers they have.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot columns_slots[] = {
    {Py_tp_new, columns_new},
    {Py_tp_dealloc, columns_dealloc},
    {Py_tp_methods, columns_methods},
    {Py_tp_getset, columns_properties},
    {Py_tp_doc, "Columns(with_headers=True)\n--\n\nBuffers of an Arrow record batch that grow."},
    {0, NULL},
};

static PyType_Spec columns_spec = {
    "ottla.client.columns.decode._native.Columns", sizeof(Columns), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    columns_slots,
};

/* ---- The module. ---- */

static int module_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    state->block_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &block_spec, NULL);
    state->columns_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &columns_spec, NULL);
    if (state->block_type == NULL || state->columns_type == NULL) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "Columns", (PyObject *)state->columns_type);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->block_type);
    Py_VISIT(state->columns_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->block_type);
    Py_CLEAR(state->columns_type);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "Records straight into Arrow buffers.",
    .m_size = sizeof(State),
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&module_definition);
}
