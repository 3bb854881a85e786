"""Captures for tests, without libpcap: a second opinion on what openspin reads and writes.

make FILE FLOWS PACKETS BYTES [eth|ip]   UDP packets of FLOWS flows in turn, 100 ns apart, content
                                         from a fixed seed
check-echo IN OUT                        OUT is IN with addresses and ports exchanged, in any
                                         order, right checksums
check-same IN OUT                        OUT has the packets of IN, as far apart
check-sums IN OUT                        OUT has one 4-byte packet per flow of IN: the sum of its
                                         packets' words
"""
import random
import struct
import sys

ETHERNET, RAW = 1, 101


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp(source, port, payload):
    length = 28 + len(payload)
    head = struct.pack(">BBHHHBBHII", 0x45, 0, length, 7, 0, 64, 17, 0, source, 0x0A0000FE)
    head = head[:10] + struct.pack(">H", checksum(head)) + head[12:]
    datagram = struct.pack(">HHHH", port, 4791, length - 20, 0) + payload
    total = checksum(head[12:20] + struct.pack(">HH", 17, length - 20) + datagram)
    return head + datagram[:6] + struct.pack(">H", total or 0xFFFF) + payload


def make(path, flows, packets, size, kind="eth"):
    draw = random.Random(5)
    link = ETHERNET if kind == "eth" else RAW
    front = bytes.fromhex("02000a0000fe02000a0000010800") if kind == "eth" else b""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, link))
        for n in range(packets * flows):
            packet = front + udp(0x0A000001 + n % flows, 2000 + n % flows,
                                 draw.randbytes(size - 28 - len(front)))
            file.write(struct.pack("<IIII", 5, 100 * n, len(packet), len(packet)) + packet)


def read(path):
    """Packets and nanoseconds of a pcap or pcapng as openspin writes them."""
    data, result, at = open(path, "rb").read(), [], 24
    if struct.unpack_from("<I", data)[0] == 0xA1B23C4D:
        while at < len(data):
            seconds, nanos, length, original = struct.unpack_from("<IIII", data, at)
            assert length == original
            result.append((seconds * 10**9 + nanos, data[at + 16:at + 16 + length]))
            at += 16 + length
        return result
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length % 4 == 0, "blocks are of whole words"
        assert struct.unpack_from("<I", data, at + length - 4)[0] == length, "block lengths agree"
        if kind == 6:
            _, high, low, size, _ = struct.unpack_from("<IIIII", data, at + 8)
            result.append((high << 32 | low, data[at + 28:at + 28 + size]))
        at += length
    return result


def ip_of(packet):
    return packet[14:] if packet[12:14] == b"\x08\0" and packet[0] >> 4 != 4 else packet


def check_echo(before, after):
    sent = [ip_of(p) for _, p in read(before)]
    got = read(after)
    assert len(got) == len(sent), (len(got), len(sent))
    assert all(a[0] <= b[0] for a, b in zip(got, got[1:])), "in order of time"
    assert got[0][0] > 0
    for _, p in got:
        assert checksum(p[:20]) == 0
        assert checksum(p[12:20] + struct.pack(">HH", 17, len(p) - 20) + p[20:]) == 0
    back = sorted(p[:12] + p[16:20] + p[12:16] + p[22:24] + p[20:22] + p[24:] for _, p in got)
    assert back == sorted(sent), "every packet once, exchanged"


def check_same(before, after):
    one, other = read(before), read(after)
    assert [p for _, p in one] == [p for _, p in other]
    assert [t - one[0][0] for t, _ in one] == [t - other[0][0] for t, _ in other]


def check_sums(before, after):
    sums = {}
    for _, p in read(before):
        flow = p[12:16]
        words = struct.unpack(f"<{len(p) // 4}I", p[:len(p) // 4 * 4])
        sums[flow] = (sums.get(flow, 0) + sum(words)) & 0xFFFFFFFF
    got = sorted(struct.unpack("<I", p)[0] for _, p in read(after))
    assert got == sorted(sums.values()), (got, sums)


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "make":
        make(words[0], *map(int, words[1:4]), *words[4:])
    else:
        {"check-echo": check_echo, "check-same": check_same, "check-sums": check_sums}[what](*words)
        print("holds")
