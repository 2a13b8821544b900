/* Where a record of a batch is, found without decoding it. Included by the modules that look at records in C.
 *
 * Payloads come from the network: every length is checked against the bytes that are left.
 */

#ifndef OTTLA_SPANS_H
#define OTTLA_SPANS_H

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

#endif
