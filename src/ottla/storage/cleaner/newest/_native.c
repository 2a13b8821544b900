/* The newest offset of every key, in a table of fixed size: `twin.py` is the same with a dictionary.
 *
 * A slot holds a digest of the key (SipHash-2-4 with 128 bits and a secret of the cleaning) and the offset: 24 bytes
 * for a key of any length. Two keys among five million have the same digest with a probability below 1e-25. Slots are
 * found by double hashing: the number of slots is prime, so that every step visits all of them.
 *
 * Payloads are walked without Python's global lock. One thread at a time may use a table.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "../../../records/inspection/spans.h"

#define SECRET_BYTES 16
#define SLOTS_MIN 5

typedef struct {
    uint64_t low, high;
} Digest;

typedef struct {
    Digest digest;
    /* The offset plus one; 0 in an empty slot. */
    int64_t offset_and_one;
} Slot;

typedef struct {
    PyObject_HEAD
    Slot *slots;
    uint64_t slot_count;
    Py_ssize_t used, used_max;
    uint64_t secret_low, secret_high;
} Table;

/* ---- digests */

static uint64_t rotated(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

static void mix(uint64_t state[4], int rounds)
{
    while (rounds-- > 0) {
        state[0] += state[1];
        state[2] += state[3];
        state[1] = rotated(state[1], 13) ^ state[0];
        state[3] = rotated(state[3], 16) ^ state[2];
        state[0] = rotated(state[0], 32);
        state[2] += state[1];
        state[0] += state[3];
        state[1] = rotated(state[1], 17) ^ state[2];
        state[3] = rotated(state[3], 21) ^ state[0];
        state[2] = rotated(state[2], 32);
    }
}

static uint64_t little_endian(const unsigned char *bytes, size_t count)
{
    uint64_t value = 0;
    for (size_t place = 0; place < count; place++)
        value |= (uint64_t)bytes[place] << (8 * place);
    return value;
}

static Digest digest_of(const Table *table, const unsigned char *key, size_t length)
{
    uint64_t state[4] = {
        table->secret_low ^ 0x736f6d6570736575u,
        table->secret_high ^ 0x646f72616e646f6du ^ 0xee,
        table->secret_low ^ 0x6c7967656e657261u,
        table->secret_high ^ 0x7465646279746573u,
    };
    size_t whole = length & ~(size_t)7;
    for (size_t place = 0; place < whole; place += 8) {
        uint64_t word = little_endian(key + place, 8);
        state[3] ^= word;
        mix(state, 2);
        state[0] ^= word;
    }
    uint64_t last = little_endian(key + whole, length - whole) | (uint64_t)length << 56;
    state[3] ^= last;
    mix(state, 2);
    state[0] ^= last;
    state[2] ^= 0xee;
    mix(state, 4);
    Digest digest;
    digest.low = state[0] ^ state[1] ^ state[2] ^ state[3];
    state[1] ^= 0xdd;
    mix(state, 4);
    digest.high = state[0] ^ state[1] ^ state[2] ^ state[3];
    return digest;
}

/* ---- slots */

/* The slot of a key, or the empty slot in which it belongs. There is always an empty one. */
static Slot *slot_of(const Table *table, Digest digest)
{
    uint64_t place = digest.low % table->slot_count;
    uint64_t step = 1 + digest.high % (table->slot_count - 1);
    for (;;) {
        Slot *slot = &table->slots[place];
        if (slot->offset_and_one == 0 || (slot->digest.low == digest.low && slot->digest.high == digest.high))
            return slot;
        place += step;
        if (place >= table->slot_count)
            place -= table->slot_count;
    }
}

static void put_key(Table *table, const unsigned char *key, size_t length, int64_t offset)
{
    Digest digest = digest_of(table, key, length);
    Slot *slot = slot_of(table, digest);
    if (slot->offset_and_one == 0) {
        slot->digest = digest;
        table->used++;
    }
    slot->offset_and_one = offset + 1;
}

static int64_t newest_of(const Table *table, const unsigned char *key, size_t length)
{
    return slot_of(table, digest_of(table, key, length))->offset_and_one - 1;
}

static int is_prime(uint64_t number)
{
    for (uint64_t divisor = 2; divisor * divisor <= number; divisor++)
        if (number % divisor == 0)
            return 0;
    return 1;
}

/* ---- batches */

/* Whether a payload consists of this many records, and nothing else. */
static int is_usual(Py_buffer *view, Py_ssize_t count)
{
    Reader payload = {view->buf, (const unsigned char *)view->buf + view->len};
    Span span;
    if (count < 0 || count > view->len / RECORD_SIZE_MIN)
        return 0;
    for (Py_ssize_t place = 0; place < count; place++)
        if (!inspect_record(&payload, 0, &span) || span.offset_delta < 0)
            return 0;
    return payload.at == payload.end;
}

/* How many records have a key that is not in the table. A key that occurs twice counts twice. */
static Py_ssize_t count_unknown(Table *table, Py_buffer *view, Py_ssize_t count, int64_t base_offset, int64_t start)
{
    Reader payload = {view->buf, (const unsigned char *)view->buf + view->len};
    Span span;
    Py_ssize_t unknown = 0;
    while (count-- > 0 && inspect_record(&payload, 0, &span))
        if (span.key_length >= 0 && base_offset + span.offset_delta >= start)
            unknown += newest_of(table, span.key, (size_t)span.key_length) < 0;
    return unknown;
}

static PyObject *put_records(Table *table, PyObject *arguments)
{
    Py_buffer view;
    Py_ssize_t count;
    long long base_offset, start;
    if (!PyArg_ParseTuple(arguments, "y*nLL:put_records", &view, &count, &base_offset, &start))
        return NULL;
    int usual, fits = 0;
    Py_BEGIN_ALLOW_THREADS
    usual = base_offset >= 0 && base_offset <= INT64_MAX - INT32_MAX - 1 && is_usual(&view, count);
    if (usual)
        fits = count <= table->used_max - table->used
            || count_unknown(table, &view, count, base_offset, start) <= table->used_max - table->used;
    if (fits) {
        Reader payload = {view.buf, (const unsigned char *)view.buf + view.len};
        Span span;
        while (count-- > 0 && inspect_record(&payload, 0, &span))
            if (span.key_length >= 0 && base_offset + span.offset_delta >= start)
                put_key(table, span.key, (size_t)span.key_length, base_offset + span.offset_delta);
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    if (!usual)
        Py_RETURN_NONE;
    return PyBool_FromLong(fits);
}

typedef struct {
    Py_ssize_t kept, keyless, tombstones;
    int64_t largest_delta;
    unsigned char *copy;
    size_t copied;
} Kept;

/* Copies the records that stay into `found->copy`, which has room for the whole payload. If all stay, none is copied. */
static void keep(
    const Table *table, Py_buffer *view, Py_ssize_t count, int64_t base_offset, int64_t latest, int tombstones, Kept *found)
{
    Reader payload = {view->buf, (const unsigned char *)view->buf + view->len};
    /* The records from here on are kept, and not copied yet. */
    const unsigned char *run = payload.at;
    Span span;
    for (; count > 0 && inspect_record(&payload, 0, &span); count--) {
        int64_t offset = base_offset + span.offset_delta;
        int stays = offset > latest;
        if (!stays && span.key_length < 0)
            found->keyless++;
        else if (!stays && (span.value_length >= 0 || tombstones))
            stays = offset >= newest_of(table, span.key, (size_t)span.key_length);
        if (stays) {
            found->kept++;
            found->tombstones += span.value_length < 0;
            if (found->kept == 1 || span.timestamp_delta > found->largest_delta)
                found->largest_delta = span.timestamp_delta;
        } else {
            memcpy(found->copy + found->copied, run, (size_t)(span.start - run));
            found->copied += (size_t)(span.start - run);
            run = span.end;
        }
    }
    if (run != view->buf) {
        memcpy(found->copy + found->copied, run, (size_t)(payload.at - run));
        found->copied += (size_t)(payload.at - run);
    }
}

static PyObject *keep_records(Table *table, PyObject *arguments)
{
    Py_buffer view;
    Py_ssize_t count;
    long long base_offset, latest;
    int tombstones;
    if (!PyArg_ParseTuple(arguments, "y*nLLp:keep_records", &view, &count, &base_offset, &latest, &tombstones))
        return NULL;
    Kept found = {0, 0, 0, 0, NULL, 0};
    int usual;
    Py_BEGIN_ALLOW_THREADS
    usual = base_offset >= 0 && base_offset <= INT64_MAX - INT32_MAX - 1 && is_usual(&view, count);
    if (usual && (found.copy = PyMem_RawMalloc((size_t)view.len + 1)) != NULL)
        keep(table, &view, count, base_offset, latest, tombstones, &found);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    if (!usual)
        Py_RETURN_NONE;
    if (found.copy == NULL)
        return PyErr_NoMemory();
    PyObject *answer = Py_BuildValue(
        "nnnLy#", found.kept, found.keyless, found.tombstones, (long long)found.largest_delta, (const char *)found.copy,
        (Py_ssize_t)found.copied);
    PyMem_RawFree(found.copy);
    return answer;
}

/* ---- single keys */

static PyObject *put(Table *table, PyObject *arguments)
{
    Py_buffer key;
    long long offset;
    if (!PyArg_ParseTuple(arguments, "y*L:put", &key, &offset))
        return NULL;
    int has_room = table->used < table->used_max || newest_of(table, key.buf, (size_t)key.len) >= 0;
    if (has_room && offset >= 0)
        put_key(table, key.buf, (size_t)key.len, offset);
    PyBuffer_Release(&key);
    if (!has_room || offset < 0) {
        PyErr_SetString(PyExc_ValueError, "the table is full, or the offset is negative");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *get(Table *table, PyObject *argument)
{
    Py_buffer key;
    if (PyObject_GetBuffer(argument, &key, PyBUF_SIMPLE) < 0)
        return NULL;
    int64_t offset = newest_of(table, key.buf, (size_t)key.len);
    PyBuffer_Release(&key);
    return PyLong_FromLongLong((long long)offset);
}

/* ---- the type */

static PyObject *table_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(names))
{
    Py_ssize_t keys_max, secret_length;
    const char *secret;
    if (!PyArg_ParseTuple(arguments, "ny#:NewestOffsets", &keys_max, &secret, &secret_length))
        return NULL;
    if (keys_max < 1 || keys_max > PY_SSIZE_T_MAX / 2 / (Py_ssize_t)sizeof(Slot) || secret_length != SECRET_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a table needs room for a key, and a secret of 16 bytes");
        return NULL;
    }
    Table *table = (Table *)type->tp_alloc(type, 0);
    if (table == NULL)
        return NULL;
    table->used_max = keys_max;
    table->slot_count = (uint64_t)keys_max + (uint64_t)keys_max / 9 + SLOTS_MIN;
    while (!is_prime(table->slot_count))
        table->slot_count++;
    table->secret_low = little_endian((const unsigned char *)secret, 8);
    table->secret_high = little_endian((const unsigned char *)secret + 8, 8);
    /* Pages that are never written take no memory. */
    table->slots = PyMem_RawCalloc(table->slot_count, sizeof(Slot));
    if (table->slots == NULL) {
        Py_DECREF(table);
        return PyErr_NoMemory();
    }
    return (PyObject *)table;
}

static void table_dealloc(Table *table)
{
    PyTypeObject *type = Py_TYPE(table);
    PyMem_RawFree(table->slots);
    type->tp_free(table);
    Py_DECREF(type);
}

static Py_ssize_t table_length(Table *table)
{
    return table->used;
}

static PyMethodDef table_methods[] = {
    {"put", (PyCFunction)put, METH_VARARGS, "Notes the offset of a key."},
    {"get", (PyCFunction)get, METH_O, "The newest offset of a key; -1 if it is not in the table."},
    {"put_records", (PyCFunction)put_records, METH_VARARGS, "Notes the keys of a payload; None if one is unusual."},
    {"keep_records", (PyCFunction)keep_records, METH_VARARGS, "The records that stay; None if one is unusual."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot table_slots[] = {
    {Py_tp_new, table_new},
    {Py_tp_dealloc, table_dealloc},
    {Py_tp_methods, table_methods},
    {Py_sq_length, table_length},
    {0, NULL},
};

static PyType_Spec table_spec = {
    "ottla.storage.cleaner.newest._native.NewestOffsets", sizeof(Table), 0, Py_TPFLAGS_DEFAULT, table_slots};

static int add_type(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &table_spec, NULL);
    if (type == NULL)
        return -1;
    int added = PyModule_AddObjectRef(module, "NewestOffsets", type);
    Py_DECREF(type);
    return added < 0 ? -1 : PyModule_AddIntConstant(module, "ENTRY_BYTES", sizeof(Slot));
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, add_type}, {0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", NULL, 0, NULL, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&module);
}
