/* The records of a batch, inspected without decoding them: `twin.py` is the same in Python.
 *
 * Payloads come from the network: every length is checked against the bytes that are left. The answer to everything that
 * is unusual is None; the caller finds out what is wrong.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define VARINT_BYTES_MAX 5
#define VARLONG_BYTES_MAX 10
/* Seven fields of one byte. */
#define RECORD_SIZE_MIN 7

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
} Reader;

/* Reads a zigzag number of at most `bytes_max` bytes; 0 if there is none. */
static int read_number(Reader *reader, int bytes_max, int64_t *value)
{
    uint64_t bits = 0;
    int shift = 0;
    for (int count = 0; count < bytes_max; count++) {
        if (reader->at >= reader->end)
            return 0;
        unsigned char byte = *reader->at++;
        /* The tenth byte has room for one bit. */
        if (shift == 63 && byte > 1)
            return 0;
        bits |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
            return 1;
        }
        shift += 7;
    }
    return 0;
}

static int read_length(Reader *reader, int64_t *value)
{
    if (reader->at < reader->end && *reader->at < 0x80) {
        unsigned char byte = *reader->at++;
        *value = (int64_t)(byte >> 1) ^ -(int64_t)(byte & 1);
        return 1;
    }
    /* Five bytes can hold a little more than an int of the format. */
    return read_number(reader, VARINT_BYTES_MAX, value) && *value >= INT32_MIN && *value <= INT32_MAX;
}

/* Skips some bytes, of which at least `behind` more have to follow. */
static int skip(Reader *reader, int64_t length, int64_t behind)
{
    if (length > 0) {
        if (length > reader->end - reader->at)
            return 0;
        reader->at += length;
    }
    return reader->end - reader->at >= behind;
}

static int inspect_headers(Reader *record)
{
    int64_t count, length;
    if (!read_length(record, &count) || count < 0 || count > record->end - record->at)
        return 0;
    while (count-- > 0) {
        if (!read_length(record, &length) || length < 0 || !skip(record, length, 1))
            return 0;
        if (!read_length(record, &length) || length < -1 || !skip(record, length, 0))
            return 0;
    }
    return 1;
}

/* Pointers into the payload, and the numbers of one record. */
typedef struct {
    const unsigned char *start, *end, *rest, *key;
    int64_t timestamp_delta, offset_delta, key_length, value_length;
} Span;

static int inspect_record(Reader *payload, int keys_required, Span *span)
{
    int64_t length;
    span->start = payload->at;
    if (!read_length(payload, &length) || length < 1 || length > payload->end - payload->at)
        return 0;
    /* The attributes have no meaning. */
    Reader record = {payload->at + 1, payload->at + length};
    if (!read_number(&record, VARLONG_BYTES_MAX, &span->timestamp_delta))
        return 0;
    span->rest = record.at;
    if (!read_length(&record, &span->offset_delta))
        return 0;
    if (!read_length(&record, &span->key_length) || span->key_length < (keys_required ? 0 : -1))
        return 0;
    span->key = record.at;
    if (!skip(&record, span->key_length, 1))
        return 0;
    if (!read_length(&record, &span->value_length) || span->value_length < -1 || !skip(&record, span->value_length, 1))
        return 0;
    if (!inspect_headers(&record) || record.at != record.end)
        return 0;
    span->end = payload->at = record.end;
    return 1;
}

static PyObject *inspect_records(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer view;
    Py_ssize_t position, index, limit, count = 0;
    int keys_required;
    if (!PyArg_ParseTuple(arguments, "y*nnnp:inspect_records", &view, &position, &index, &limit, &keys_required))
        return NULL;
    const unsigned char *start = view.buf;
    if (position < 0 || position > view.len) {
        PyBuffer_Release(&view);
        Py_RETURN_NONE;
    }
    Reader payload = {start + position, start + view.len};
    int64_t smallest = INT64_MAX, largest = INT64_MIN;
    Span span;
    int is_consecutive = 1, is_usual = 1;
    while (count < limit && payload.at < payload.end) {
        if (!inspect_record(&payload, keys_required, &span)) {
            is_usual = 0;
            break;
        }
        if (span.timestamp_delta < smallest)
            smallest = span.timestamp_delta;
        if (span.timestamp_delta > largest)
            largest = span.timestamp_delta;
        if (span.offset_delta != index + count)
            is_consecutive = 0;
        count++;
    }
    position = payload.at - start;
    PyBuffer_Release(&view);
    if (!is_usual)
        Py_RETURN_NONE;
    return Py_BuildValue(
        "nnLLO", position, count, (long long)smallest, (long long)largest, is_consecutive ? Py_True : Py_False);
}

/* A tuple of the eight numbers of `ottla.records.record.RecordSpan`; NULL if there is no memory. */
static PyObject *span_tuple(const Span *span, const unsigned char *start)
{
    const int64_t numbers[8] = {
        span->start - start, span->end - start, span->timestamp_delta, span->offset_delta,
        span->rest - start,  span->key - start, span->key_length,      span->value_length,
    };
    PyObject *tuple = PyTuple_New(8);
    for (int place = 0; tuple != NULL && place < 8; place++) {
        PyObject *number = PyLong_FromLongLong((long long)numbers[place]);
        if (number == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, place, number);
    }
    return tuple;
}

static PyObject *record_spans(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer view;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(arguments, "y*n:record_spans", &view, &count))
        return NULL;
    const unsigned char *start = view.buf;
    Reader payload = {start, start + view.len};
    if (count < 0 || count > view.len / RECORD_SIZE_MIN) {
        PyBuffer_Release(&view);
        Py_RETURN_NONE;
    }
    PyObject *spans = PyList_New(count);
    int is_usual = 1;
    for (Py_ssize_t place = 0; spans != NULL && place < count; place++) {
        Span span;
        if (!inspect_record(&payload, 0, &span)) {
            is_usual = 0;
            break;
        }
        PyObject *tuple = span_tuple(&span, start);
        if (tuple == NULL)
            Py_CLEAR(spans);
        else
            PyList_SET_ITEM(spans, place, tuple);
    }
    if (payload.at != payload.end)
        is_usual = 0;
    PyBuffer_Release(&view);
    if (spans != NULL && !is_usual) {
        /* Places that were not filled are NULL, which a list allows while it is deallocated. */
        Py_DECREF(spans);
        Py_RETURN_NONE;
    }
    return spans;
}

static PyMethodDef methods[] = {
    {"record_spans", record_spans, METH_VARARGS, "Where the records of a whole payload are; None if one is unusual."},
    {"inspect_records", inspect_records, METH_VARARGS, "Looks at some records of a payload; None if one is unusual."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&module);
}
