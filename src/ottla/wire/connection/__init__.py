"""A connection that speaks Kafka's protocol, without sockets, clocks or threads.

The machines here take bytes in and give bytes out; a driver moves the bytes. There are three sets of drivers:
`ottla.host` (sockets of a node), `ottla.sim` (the simulated network) and `ottla.client` (asyncio transports).

- `frames` cuts a byte stream into frames, and large frames are received in place.
- `outgoing` is the queue of bytes to send, with regions of files among them.
- `server` is the serving end: it starts requests, keeps their answers in order, and applies back-pressure.
- `client` is the asking end: it negotiates versions, sends requests, and matches responses.
"""
