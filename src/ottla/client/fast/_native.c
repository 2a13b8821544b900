/* Records one by one, for producers and consumers: `twin.py` is the same in Python.
 *
 * append_record encodes a record at the end of a bytearray and returns its new size. decode_records makes the records of a payload, as instances
 * of a tuple type. partition_of_key is murmur2 as Java clients compute it. Payloads come from the network: every length
 * is checked against the bytes that are left.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define FIELDS 9
#define VARINT_BYTES_MAX 5
#define VARLONG_BYTES_MAX 10

/* Encoding. */

static size_t varint_size(int64_t value)
{
    uint64_t bits = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    size_t size = 1;
    while (bits >= 0x80) {
        bits >>= 7;
        size++;
    }
    return size;
}

static char *put_varint(char *target, int64_t value)
{
    uint64_t bits = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (bits >= 0x80) {
        *target++ = (char)(bits | 0x80);
        bits >>= 7;
    }
    *target++ = (char)bits;
    return target;
}

/* Bytes of a key, a value or a header; `data` is NULL for None. */
typedef struct {
    const char *data;
    Py_ssize_t size;
    Py_buffer view;
    int has_view;
} Piece;

static int piece_get(PyObject *object, Piece *piece)
{
    piece->has_view = 0;
    if (object == Py_None) {
        piece->data = NULL;
        piece->size = -1;
        return 0;
    }
    if (PyBytes_CheckExact(object)) {
        piece->data = PyBytes_AS_STRING(object);
        piece->size = PyBytes_GET_SIZE(object);
        return 0;
    }
    if (PyObject_GetBuffer(object, &piece->view, PyBUF_SIMPLE) < 0)
        return -1;
    piece->has_view = 1;
    piece->data = piece->view.buf;
    piece->size = piece->view.len;
    return 0;
}

static void piece_release(Piece *piece)
{
    if (piece->has_view)
        PyBuffer_Release(&piece->view);
}

static size_t piece_size(const Piece *piece)
{
    return varint_size(piece->size) + (piece->size > 0 ? (size_t)piece->size : 0);
}

static char *put_piece(char *target, const Piece *piece)
{
    target = put_varint(target, piece->size);
    if (piece->size > 0) {
        memcpy(target, piece->data, (size_t)piece->size);
        target += piece->size;
    }
    return target;
}

/* The encoded headers, with their number, as a new bytes object. */
static PyObject *encode_headers(PyObject *headers)
{
    PyObject *rows = PySequence_Fast(headers, "headers are a sequence of names and contents");
    if (rows == NULL)
        return NULL;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(rows);
    PyObject *result = NULL;
    Piece *pieces = PyMem_Calloc((size_t)(2 * count) + 1, sizeof(Piece));
    size_t size = varint_size(count);
    Py_ssize_t taken = 0;
    if (pieces == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *row = PySequence_Fast_GET_ITEM(rows, index);
        if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != 2) {
            PyErr_SetString(PyExc_TypeError, "a header is a tuple of a name and a content");
            goto done;
        }
        Piece *name = &pieces[taken];
        name->data = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(row, 0), &name->size);
        if (name->data == NULL)
            goto done;
        taken++;
        if (piece_get(PyTuple_GET_ITEM(row, 1), &pieces[taken]) < 0)
            goto done;
        size += piece_size(name) + piece_size(&pieces[taken]);
        taken++;
    }
    result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (result != NULL) {
        char *target = put_varint(PyBytes_AS_STRING(result), count);
        for (Py_ssize_t index = 0; index < taken; index++)
            target = put_piece(target, &pieces[index]);
    }
done:
    for (Py_ssize_t index = 0; pieces != NULL && index < taken; index++)
        piece_release(&pieces[index]);
    PyMem_Free(pieces);
    Py_DECREF(rows);
    return result;
}

/* Adds room at the end. Where the memory has to grow, it doubles: the bytearray alone would add an eighth each time, and
 * a batch would be copied dozens of times while it fills. */
static int grow(PyObject *payload, Py_ssize_t size)
{
    Py_ssize_t doubled = 2 * PyByteArray_GET_SIZE(payload);
    if (size >= ((PyByteArrayObject *)payload)->ob_alloc && size < doubled && PyByteArray_Resize(payload, doubled) < 0)
        return -1;
    return PyByteArray_Resize(payload, size);
}

static PyObject *append_record(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 6 || !PyByteArray_CheckExact(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "append_record(payload, timestamp_delta, offset_delta, key, value, headers)");
        return NULL;
    }
    PyObject *payload = arguments[0];
    long long timestamp = PyLong_AsLongLong(arguments[1]);
    long long offset = PyLong_AsLongLong(arguments[2]);
    if ((timestamp == -1 || offset == -1) && PyErr_Occurred())
        return NULL;
    Piece key, value;
    if (piece_get(arguments[3], &key) < 0)
        return NULL;
    if (piece_get(arguments[4], &value) < 0) {
        piece_release(&key);
        return NULL;
    }
    PyObject *result = NULL, *headers = NULL;
    Py_ssize_t header_count = PyObject_Size(arguments[5]);
    if (header_count < 0)
        goto done;
    if (header_count > 0) {
        headers = encode_headers(arguments[5]);
        if (headers == NULL)
            goto done;
    }
    size_t header_size = headers == NULL ? 1 : (size_t)PyBytes_GET_SIZE(headers);
    size_t body = 1 + varint_size(timestamp) + varint_size(offset) + piece_size(&key) + piece_size(&value) + header_size;
    Py_ssize_t start = PyByteArray_GET_SIZE(payload);
    if (grow(payload, start + (Py_ssize_t)(varint_size((int64_t)body) + body)) < 0)
        goto done;
    char *target = PyByteArray_AS_STRING(payload) + start;
    target = put_varint(target, (int64_t)body);
    *target++ = 0;
    target = put_varint(target, timestamp);
    target = put_varint(target, offset);
    target = put_piece(target, &key);
    target = put_piece(target, &value);
    if (headers == NULL)
        *target = 0;
    else
        memcpy(target, PyBytes_AS_STRING(headers), header_size);
    result = PyLong_FromSsize_t(PyByteArray_GET_SIZE(payload));
done:
    Py_XDECREF(headers);
    piece_release(&key);
    piece_release(&value);
    return result;
}

/* The partition of a key. */

static uint32_t murmur2(const unsigned char *data, Py_ssize_t size)
{
    const uint32_t multiplier = 0x5bd1e995;
    uint32_t hash = 0x9747b28cu ^ (uint32_t)size;
    Py_ssize_t whole = size & ~(Py_ssize_t)3;
    for (Py_ssize_t at = 0; at < whole; at += 4) {
        uint32_t word = (uint32_t)data[at] | (uint32_t)data[at + 1] << 8 | (uint32_t)data[at + 2] << 16 |
                        (uint32_t)data[at + 3] << 24;
        word *= multiplier;
        word ^= word >> 24;
        word *= multiplier;
        hash *= multiplier;
        hash ^= word;
    }
    Py_ssize_t rest = size - whole;
    if (rest) {
        if (rest == 3)
            hash ^= (uint32_t)data[whole + 2] << 16;
        if (rest >= 2)
            hash ^= (uint32_t)data[whole + 1] << 8;
        hash ^= data[whole];
        hash *= multiplier;
    }
    hash ^= hash >> 13;
    hash *= multiplier;
    return hash ^ hash >> 15;
}

static PyObject *partition_of_key(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "partition_of_key(key, partitions)");
        return NULL;
    }
    long partitions = PyLong_AsLong(arguments[1]);
    if (partitions == -1 && PyErr_Occurred())
        return NULL;
    if (partitions < 1) {
        PyErr_SetString(PyExc_ValueError, "a topic has at least one partition");
        return NULL;
    }
    Piece key;
    if (piece_get(arguments[0], &key) < 0)
        return NULL;
    if (key.data == NULL && key.size < 0) {
        PyErr_SetString(PyExc_TypeError, "a key is bytes");
        return NULL;
    }
    uint32_t hash = murmur2((const unsigned char *)key.data, key.size);
    piece_release(&key);
    return PyLong_FromLong((long)(hash & 0x7fffffff) % partitions);
}

/* Decoding. */

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
} Reader;

static int get_varint(Reader *reader, int64_t *value, int bytes_max)
{
    uint64_t bits = 0;
    for (int index = 0; index < bytes_max; index++) {
        if (reader->at == reader->end)
            return -1;
        unsigned char byte = *reader->at++;
        if (index == VARLONG_BYTES_MAX - 1 && byte > 1)
            return -1; /* more than 64 bits */
        bits |= (uint64_t)(byte & 0x7f) << (7 * index);
        if (!(byte & 0x80)) {
            *value = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
            return 0;
        }
    }
    return -1;
}

/* Bytes with their length before them, or None. NULL without an exception if the payload ends too early. */
static PyObject *get_bytes(Reader *reader)
{
    int64_t length;
    if (get_varint(reader, &length, VARINT_BYTES_MAX) < 0)
        return NULL;
    if (length < 0)
        return length == -1 ? Py_NewRef(Py_None) : NULL;
    if (length > reader->end - reader->at)
        return NULL;
    PyObject *found = PyBytes_FromStringAndSize((const char *)reader->at, (Py_ssize_t)length);
    reader->at += length;
    return found;
}

static PyObject *get_headers(Reader *reader, PyObject *none)
{
    int64_t count, length;
    if (get_varint(reader, &count, VARINT_BYTES_MAX) < 0 || count < 0 || count > reader->end - reader->at)
        return NULL;
    if (count == 0)
        return Py_NewRef(none);
    PyObject *headers = PyList_New((Py_ssize_t)count);
    for (Py_ssize_t index = 0; headers != NULL && index < count; index++) {
        PyObject *name = NULL, *content = NULL, *row = NULL;
        if (get_varint(reader, &length, VARINT_BYTES_MAX) == 0 && length >= 0 && length <= reader->end - reader->at) {
            name = PyUnicode_DecodeUTF8((const char *)reader->at, (Py_ssize_t)length, "replace");
            reader->at += length;
        }
        if (name != NULL)
            content = get_bytes(reader);
        if (content != NULL)
            row = PyTuple_Pack(2, name, content);
        Py_XDECREF(name);
        Py_XDECREF(content);
        if (row == NULL)
            Py_CLEAR(headers);
        else
            PyList_SET_ITEM(headers, index, row);
    }
    return headers;
}

typedef struct {
    PyTypeObject *type;
    PyObject *topic, *partition, *append_time, *kind, *epoch, *no_headers;
    int64_t base_offset, base_timestamp, from_offset;
} Batch;

/* One record; `*record` is NULL if it lies before the first wanted offset. -1 if the payload is damaged. */
static int get_record(Reader *payload, const Batch *batch, PyObject **record)
{
    int64_t length, timestamp, offset;
    *record = NULL;
    if (get_varint(payload, &length, VARINT_BYTES_MAX) < 0 || length < 1 || length > payload->end - payload->at)
        return -1;
    Reader reader = {payload->at + 1, payload->at + length};
    payload->at = reader.end;
    if (get_varint(&reader, &timestamp, VARLONG_BYTES_MAX) < 0 || get_varint(&reader, &offset, VARINT_BYTES_MAX) < 0)
        return -1;
    /* Deltas of broken writers may overflow; they wrap around, as in Java. */
    offset = (int64_t)((uint64_t)batch->base_offset + (uint64_t)offset);
    if (offset < batch->from_offset)
        return 0;
    PyObject *key = get_bytes(&reader);
    PyObject *value = key == NULL ? NULL : get_bytes(&reader);
    PyObject *headers = value == NULL ? NULL : get_headers(&reader, batch->no_headers);
    PyObject *number = headers == NULL ? NULL : PyLong_FromLongLong(offset);
    PyObject *time = NULL;
    if (number != NULL) {
        int64_t stamp = (int64_t)((uint64_t)batch->base_timestamp + (uint64_t)timestamp);
        time = batch->append_time == Py_None ? PyLong_FromLongLong(stamp) : Py_NewRef(batch->append_time);
    }
    PyObject *found = time == NULL ? NULL : batch->type->tp_alloc(batch->type, FIELDS);
    if (found == NULL) {
        Py_XDECREF(key);
        Py_XDECREF(value);
        Py_XDECREF(headers);
        Py_XDECREF(number);
        Py_XDECREF(time);
        return -1;
    }
    PyTuple_SET_ITEM(found, 0, Py_NewRef(batch->topic));
    PyTuple_SET_ITEM(found, 1, Py_NewRef(batch->partition));
    PyTuple_SET_ITEM(found, 2, number);
    PyTuple_SET_ITEM(found, 3, time);
    PyTuple_SET_ITEM(found, 4, Py_NewRef(batch->kind));
    PyTuple_SET_ITEM(found, 5, key);
    PyTuple_SET_ITEM(found, 6, value);
    PyTuple_SET_ITEM(found, 7, headers);
    PyTuple_SET_ITEM(found, 8, Py_NewRef(batch->epoch));
    /* No field can refer to the record, so the collector of cycles need not look at it. */
    PyObject_GC_UnTrack(found);
    *record = found;
    return 0;
}

static PyObject *decode_records(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Batch batch;
    Py_buffer payload;
    Py_ssize_t count;
    Py_ssize_t limit;
    long long base_offset, base_timestamp, from_offset;
    if (!PyArg_ParseTuple(arguments, "O!y*nOOLLOOOLn:decode_records", &PyType_Type, &batch.type, &payload, &count,
                          &batch.topic, &batch.partition, &base_offset, &base_timestamp, &batch.append_time,
                          &batch.kind, &batch.epoch, &from_offset, &limit))
        return NULL;
    PyObject *found = NULL;
    batch.base_offset = base_offset;
    batch.base_timestamp = base_timestamp;
    batch.from_offset = from_offset;
    batch.no_headers = PyTuple_New(0);
    if (!PyType_IsSubtype(batch.type, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "records are tuples");
        goto done;
    }
    found = PyList_New(0);
    Reader reader = {payload.buf, (const unsigned char *)payload.buf + payload.len};
    for (Py_ssize_t index = 0; found != NULL && index < count && PyList_GET_SIZE(found) < limit; index++) {
        PyObject *record;
        int status = get_record(&reader, &batch, &record);
        if (status == 0 && record != NULL) {
            status = PyList_Append(found, record);
            Py_DECREF(record);
        }
        if (status < 0) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_ValueError, "record %zd of %zd is damaged", index, count);
            Py_CLEAR(found);
        }
    }
done:
    Py_XDECREF(batch.no_headers);
    PyBuffer_Release(&payload);
    return found;
}

static PyMethodDef methods[] = {
    {"append_record", (PyCFunction)(void (*)(void))append_record, METH_FASTCALL,
     "append_record(payload, timestamp_delta, offset_delta, key, value, headers)"},
    {"partition_of_key", (PyCFunction)(void (*)(void))partition_of_key, METH_FASTCALL,
     "partition_of_key(key, partitions)"},
    {"decode_records", decode_records, METH_VARARGS,
     "decode_records(type, payload, count, topic, partition, base_offset, base_timestamp, append_time, kind, epoch, "
     "from_offset, limit)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_native", "Records one by one, compiled.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModule_Create(&module);
}
