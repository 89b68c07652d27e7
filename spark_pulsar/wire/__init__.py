"""Pulsar's binary protocol as bytes and values, both ways. No sockets, no clocks; what arrives is taken as hostile.

Theory of operation. A connection is a stream of *frames*; a frame is a *command* (a protobuf message) and, for SEND and
MESSAGE, an *entry*: checksum, metadata and payload, which the broker stores and delivers without reading its contents.

    bytes in  --frames.FrameSplitter-->  Frame  --frames.parse_command-->  BaseCommand
    bytes in  --run_splitter.RunSplitter-->  Frame | SendRun | ColumnarSends     (a broker's side)
    BaseCommand  --frames.command_frame / payload_frame-->  bytes out
    a run's results  --receipts.receipts / messages.message_frames-->  bytes out  (a broker's side)
    ACK frames  --acks.parse_ack_ids-->  ranges of entries                        (a broker's side)
    MESSAGE frames  --entry_blocks.block_of-->  EntryBlock                        (a client's side)

Two speeds. Commands are rare and rich: they go through protobuf, are built by the constructors in `protocol`:
`commands` (what a broker says), `requests` (what a client says) and `replies` (how to refuse each of them), so that the
fields which clients silently rely on are set in one place. Entries are many and plain: `sends` and `entries.messages`
treat them in runs, parallel lists over one buffer, with templates instead of message objects, and fall back to protobuf
for whatever is not plain. The property tests hold both speeds against each other.

Inside an entry: `entries.entry_bytes` parses and builds it, `entries.compression` has the four codecs, `entries.chunks`
cuts and joins large messages, `columns` turns batches of messages into Arrow arrays and back, `keys` says which
partition or consumer a key belongs to, `protocol.ack_sets` which messages of a batch are still wanted.

Errors are typed: MalformedFrame ends the session, CorruptMessage concerns one entry. The schema is `pulsar_api.proto`;
`pulsar_api_pb2` is generated from it and committed, and a test compares the two.

SENDs of many producers in turn are a third: ColumnarSends, read and answered by column (`sends.columnar_reading`,
`sends.columnar_receipts`). `sends.plain_send` is the layout that both readers of SENDs know.

A broker imports neither pyarrow nor numba through this package, and NumPy with the first columnar SENDs;
`entries.compression` loads pyarrow at its first use.
"""
