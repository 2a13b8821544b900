/*
 * The floor without Python: what `floor_server.py` does with Produce requests, in C.
 *
 * One thread waits with epoll, receives what has come, checks the CRC of each batch, puts its offset in, writes it to a
 * file and answers all that was complete at once: one call each for waiting, receiving and answering, however many
 * requests there were, and one for writing each batch. Nothing is copied, nothing is decompressed, nothing is kept but
 * the end of each file. All other requests are asked of a node behind it. Anything unexpected ends it: it only ever
 * meets the benchmark.
 *
 *     floor_server PORT PORT_BEHIND DIRECTORY
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PRODUCE = 0, TOPIC_ID_VERSION = 13, TOPIC_ID_BYTES = 16, TOPIC_BYTES_MAX = 256 };
enum { BEFORE_TOPICS = 2 + 4, CHECKED_FROM = 21, LAST_OFFSET_DELTA_AT = 23 };
enum { PARTITIONS = 64, BUFFER_BYTES = 8 << 20, RECEIVED_MAX = 256 << 10, MOVED_MAX = 32 << 10, EVENTS_MAX = 64 };
enum { ANSWER_BYTES_MAX = PARTITIONS * 40 + TOPIC_BYTES_MAX + 64, ANSWERS_BYTES = 1 << 20 };

typedef struct {
    int client, behind;
    unsigned char *buffer;
    long begin, end; /* of what was received and is not answered: the beginning of a frame */
} Connection;

typedef struct {
    int descriptor; /* 0 when not open */
    long size;
    int64_t next_offset;
} PartitionFile;

static const char *directory;
static PartitionFile files[PARTITIONS];
static unsigned char topic[TOPIC_BYTES_MAX];
static int topic_length = -1;
static unsigned char answers[ANSWERS_BYTES], *answers_end = answers; /* not sent yet */
static volatile uint32_t last_checksum; /* so that no compiler leaves the work out */

static void require(int fine, const char *what) {
    if (!fine) {
        perror(what);
        exit(1);
    }
}

#if defined(__x86_64__)
#include <nmmintrin.h>
__attribute__((target("sse4.2"))) static uint32_t crc32c(const unsigned char *bytes, long count) {
    uint64_t sum = 0xffffffff, word;
    for (; count >= 8; count -= 8, bytes += 8) {
        memcpy(&word, bytes, 8);
        sum = _mm_crc32_u64(sum, word);
    }
    while (count-- > 0) sum = _mm_crc32_u8((uint32_t)sum, *bytes++);
    return ~(uint32_t)sum;
}
#else
#error "the checksum is written for x86-64 only"
#endif

static uint32_t read_int32(const unsigned char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static uint32_t read_varint(const unsigned char **at) {
    uint32_t value = 0;
    for (int shift = 0;; shift += 7) {
        unsigned char byte = *(*at)++;
        value |= (uint32_t)(byte & 127) << shift;
        if (!(byte & 128)) return value;
    }
}

static unsigned char *put_int32(unsigned char *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
    return at + 4;
}

static unsigned char *put_int64(unsigned char *at, int64_t value) {
    put_int32(at, (uint32_t)((uint64_t)value >> 32));
    return put_int32(at + 4, (uint32_t)value);
}

/* There is one topic at a time: the files begin anew with each. */
static void use_topic(const unsigned char *name, int length) {
    if (length == topic_length && !memcmp(name, topic, length)) return;
    require(length <= TOPIC_BYTES_MAX, "a long topic name");
    for (int index = 0; index < PARTITIONS; index++)
        if (files[index].descriptor) close(files[index].descriptor);
    memset(files, 0, sizeof files);
    memcpy(topic, name, length);
    topic_length = length;
}

static int64_t append(int index, unsigned char *batch, long length) {
    require(index < PARTITIONS, "a high partition");
    PartitionFile *file = &files[index];
    if (!file->descriptor) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d", directory, index);
        file->descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
        require(file->descriptor > 0, path);
    }
    int64_t first = file->next_offset;
    last_checksum = crc32c(batch + CHECKED_FROM, length - CHECKED_FROM);
    put_int64(batch, first);
    require(pwrite(file->descriptor, batch, length, file->size) == length, "pwrite");
    file->size += length;
    file->next_offset = first + read_int32(batch + LAST_OFFSET_DELTA_AT) + 1;
    return first;
}

static void send_answers(Connection *connection) {
    long length = answers_end - answers;
    if (length) require(send(connection->client, answers, length, MSG_NOSIGNAL) == length, "send");
    answers_end = answers;
}

static void answer_produce(Connection *connection, unsigned char *frame) {
    if (answers_end + ANSWER_BYTES_MAX > answers + ANSWERS_BYTES) send_answers(connection);
    unsigned char *answer = answers_end;
    const unsigned char *at = frame + 8;
    int version = frame[2] << 8 | frame[3];
    int name_length = (int16_t)(at[0] << 8 | at[1]);
    at += 2 + (name_length > 0 ? name_length : 0);
    read_varint(&at); /* tagged fields of the header: none */
    uint32_t length = read_varint(&at);
    at += (length ? length - 1 : 0) + BEFORE_TOPICS;
    read_varint(&at);
    const unsigned char *name = at;
    if (version >= TOPIC_ID_VERSION) {
        at += TOPIC_ID_BYTES;
    } else {
        length = read_varint(&at);
        at += length - 1;
    }
    int topic_bytes = at - name;
    use_topic(name, topic_bytes);

    unsigned char *end = answer + 4;
    memcpy(end, frame + 4, 4);
    end += 4;
    *end++ = 0;
    *end++ = 2;
    memcpy(end, name, topic_bytes);
    end += topic_bytes;
    uint32_t count = read_varint(&at);
    require(count <= PARTITIONS, "many partitions");
    *end++ = count;
    while (--count > 0) {
        int index = read_int32(at);
        at += 4;
        long batch_length = (long)read_varint(&at) - 1;
        int64_t first = append(index, (unsigned char *)at, batch_length);
        at += batch_length + 1;
        end = put_int32(end, index);
        *end++ = 0;
        *end++ = 0;
        end = put_int64(put_int64(put_int64(end, first), -1), 0);
        *end++ = 1;
        *end++ = 0;
        *end++ = 0;
    }
    memset(end, 0, 6);
    end += 6;
    put_int32(answer, end - answer - 4);
    answers_end = end;
}

static void ask_behind(Connection *connection, unsigned char *frame, long length) {
    unsigned char size[4];
    send_answers(connection);
    put_int32(size, length);
    require(send(connection->behind, size, 4, 0) == 4, "send behind");
    require(send(connection->behind, frame, length, 0) == length, "send behind");
    require(recv(connection->behind, size, 4, MSG_WAITALL) == 4, "receive from behind");
    length = read_int32(size);
    unsigned char *answer = malloc(length + 4);
    memcpy(answer, size, 4);
    require(recv(connection->behind, answer + 4, length, MSG_WAITALL) == length, "receive from behind");
    require(send(connection->client, answer, length + 4, MSG_NOSIGNAL) == length + 4, "send");
    free(answer);
}

static struct sockaddr_in local(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void open_connection(int listener, int events, int port_behind) {
    int one = 1;
    Connection *connection = calloc(1, sizeof *connection);
    connection->client = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    require(connection->client >= 0, "accept");
    setsockopt(connection->client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connection->buffer = malloc(BUFFER_BYTES);
    connection->behind = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in behind = local(port_behind);
    require(!connect(connection->behind, (struct sockaddr *)&behind, sizeof behind), "connect");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(events, EPOLL_CTL_ADD, connection->client, &event);
}

static void close_connection(Connection *connection) {
    close(connection->client);
    close(connection->behind);
    free(connection->buffer);
    free(connection);
}

static void move_to_front(Connection *connection) {
    memmove(connection->buffer, connection->buffer + connection->begin, connection->end - connection->begin);
    connection->end -= connection->begin;
    connection->begin = 0;
}

static void receive(Connection *connection) {
    long received = recv(connection->client, connection->buffer + connection->end, RECEIVED_MAX, 0);
    if (received < 0 && errno == EAGAIN) return;
    if (received <= 0) {
        close_connection(connection);
        return;
    }
    connection->end += received;
    while (connection->end - connection->begin >= 4) {
        unsigned char *frame = connection->buffer + connection->begin + 4;
        long length = read_int32(frame - 4);
        require(length + 4 + RECEIVED_MAX <= BUFFER_BYTES, "a large frame");
        if (connection->end - connection->begin < length + 4) break;
        if ((frame[0] << 8 | frame[1]) == PRODUCE)
            answer_produce(connection, frame);
        else
            ask_behind(connection, frame, length);
        connection->begin += length + 4;
    }
    send_answers(connection);
    /* What is left is mostly little or nothing; then memory that is still in the caches is used again. */
    if (connection->end - connection->begin <= MOVED_MAX || connection->end + RECEIVED_MAX > BUFFER_BYTES)
        move_to_front(connection);
}

int main(int count, char **arguments) {
    require(count == 4, "usage: floor_server PORT PORT_BEHIND DIRECTORY");
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), port_behind = atoi(arguments[2]);
    directory = arguments[3];
    struct sockaddr_in address = local(atoi(arguments[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    require(!bind(listener, (struct sockaddr *)&address, sizeof address) && !listen(listener, 64), "listen");
    int events = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, ready[EVENTS_MAX];
    epoll_ctl(events, EPOLL_CTL_ADD, listener, &event);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int found = epoll_wait(events, ready, EVENTS_MAX, -1);
        for (int at = 0; at < found; at++) {
            if (ready[at].data.ptr == NULL)
                open_connection(listener, events, port_behind);
            else
                receive(ready[at].data.ptr);
        }
    }
}
