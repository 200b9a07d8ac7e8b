# SPDX-License-Identifier: Apache-2.0
"""The steps in a TensorBoard file, read without TensorBoard: records (length, CRC, protobuf, CRC) and of the
protobuf the two fields that count (tensorflow/core/util/event.proto)."""
import struct


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
        shift += 7


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def events_of(path):
    """The fields of each event; fails where a record is torn."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        size = struct.unpack_from("<Q", data, at)[0]
        record = data[at + 12:at + 12 + size]
        assert len(record) == size and at + 16 + size <= len(data), f"{path}: torn at byte {at}"
        at += 16 + size
        yield list(fields(record))


def times_of(path):
    """The wall clock at each event."""
    return [struct.unpack("<d", value)[0] for event in events_of(path) for key, value in event if key == 1]


def steps_of(path, tag):
    """Steps of the events that hold a scalar `tag`, in order; fails where a record is torn."""
    steps = []
    for event in events_of(path):
        step = next((v for k, v in event if k == 2), 0)
        for key, summary in event:
            if key != 5:
                continue
            for _, value in fields(summary):
                if any(k == 1 and v == tag.encode() for k, v in fields(value)):
                    steps.append(step)
    return steps
