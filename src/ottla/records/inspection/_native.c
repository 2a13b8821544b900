/* The records of a batch, inspected without decoding them: `twin.py` is the same in Python.
 *
 * Payloads come from the network: every length is checked against the bytes that are left. The answer to everything that
 * is unusual is None; the caller finds out what is wrong.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "spans.h"

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
