-- Wireshark and tshark read openspin's packets with this: wireshark -X lua_script:openspin.lua FILE
--
-- It knows the captures of live cards (OPENSPIN_PCAP) and of worlds (openspin sim run --pcap), and
-- what tcpdump or Wireshark itself capture of live cards on UDP, where a key and a checksum of 24
-- bytes stand before the packet. The layout is that of src/nic/wire.h, and what is wrong with a
-- packet is said in the words of src/nic/wire.c. Fields: openspin.op == "put", openspin.pt_index.

local openspin = Proto("openspin", "openspin packet")

local PORT, PIDS = 25600, 1024
local MAGIC, VERSION = "sPIN", 3
local HEAD_BYTES = 24 -- of a datagram on UDP: key and checksum
local SHORT, LONG, MESSAGE, TAG = 56, 64, 72, 24
local BLOCK, REPORT = 3, 4
local SHORT_ACK, SHORT_PUT, SHORT_MOST = 33, 64, 4096 -- a put has bytes / 256 in its kind
local JOINED, JOINED_BYTES = 34, 72

local kinds = { [0] = "data", [1] = "receipt", [2] = "probe", [BLOCK] = "block",
                [REPORT] = "report",
                [SHORT_ACK] = "data, short acknowledgement", [JOINED] = "data, a run of packets" }
for high = 0, 63 do
    kinds[SHORT_PUT + high] = "data, short put"
end
local messages = { [0] = "put", [1] = "get", [2] = "atomic", [3] = "fetch", [4] = "ack",
                   [5] = "reply" }
local reports = { [0] = "whole", [1] = "page fault", [2] = "corrupt", [3] = "error",
                  [4] = "retransmission request (ERR)" }
local acks = { [0] = "PTL_NO_ACK_REQ", [1] = "PTL_ACK_REQ", [2] = "PTL_CT_ACK_REQ",
               [3] = "PTL_OC_ACK_REQ" }
local fails = { [0] = "PTL_NI_OK", [1] = "PTL_NI_UNDELIVERABLE", [2] = "PTL_NI_DROPPED",
                [3] = "PTL_NI_PT_DISABLED", [4] = "PTL_NI_PERM_VIOLATION",
                [5] = "PTL_NI_OP_VIOLATION", [6] = "PTL_NI_NO_MATCH", [7] = "PTL_NI_SEGV" }
local lists = { [0] = "PTL_PRIORITY_LIST", [1] = "PTL_OVERFLOW_LIST" }
local interfaces = { [5] = "matching, logical", [6] = "no matching, logical",
                     [9] = "matching, physical", [10] = "no matching, physical" }
local operations = { [0] = "PTL_MIN", "PTL_MAX", "PTL_SUM", "PTL_PROD", "PTL_LOR", "PTL_LAND",
                     "PTL_BOR", "PTL_BAND", "PTL_LXOR", "PTL_BXOR", "PTL_SWAP", "PTL_CSWAP",
                     "PTL_CSWAP_NE", "PTL_CSWAP_LE", "PTL_CSWAP_LT", "PTL_CSWAP_GE",
                     "PTL_CSWAP_GT", "PTL_MSWAP" }
local datatypes = { [0] = "PTL_INT8_T", "PTL_UINT8_T", "PTL_INT16_T", "PTL_UINT16_T",
                    "PTL_INT32_T", "PTL_UINT32_T", "PTL_FLOAT", "PTL_INT64_T", "PTL_UINT64_T",
                    "PTL_DOUBLE", "PTL_FLOAT_COMPLEX", "PTL_DOUBLE_COMPLEX", "PTL_LONG_DOUBLE",
                    "PTL_LONG_DOUBLE_COMPLEX" }
local FIRST_SWAP = 10

local f = {
    op = ProtoField.string("openspin.op", "Operation"),
    malformed = ProtoField.string("openspin.malformed", "Malformed"),
    key = ProtoField.bytes("openspin.key", "Key of the job"),
    checksum = ProtoField.uint64("openspin.checksum", "Checksum", base.HEX),
    magic = ProtoField.string("openspin.magic", "Magic"),
    version = ProtoField.uint8("openspin.version", "Version"),
    kind = ProtoField.uint8("openspin.kind", "Kind", base.DEC, kinds),
    short = ProtoField.bool("openspin.short", "Short form"),
    first = ProtoField.bool("openspin.first", "First of its message"),
    last = ProtoField.bool("openspin.last", "Last of its message"),
    bad = ProtoField.bool("openspin.bad", "Could not be read at the source"),
    prompt = ProtoField.bool("openspin.prompt", "A receipt is wanted at once"),
    credit = ProtoField.uint32("openspin.credit", "Credit: packets beyond those acknowledged"),
    source_nid = ProtoField.uint32("openspin.source.nid", "Source nid"),
    source_pid = ProtoField.uint32("openspin.source.pid", "Source pid"),
    target_nid = ProtoField.uint32("openspin.target.nid", "Target nid"),
    target_pid = ProtoField.uint32("openspin.target.pid", "Target pid"),
    stream = ProtoField.uint32("openspin.stream", "Stream"),
    sequence = ProtoField.uint32("openspin.sequence", "Sequence"),
    ack_stream = ProtoField.uint32("openspin.ack_stream", "Acknowledged stream"),
    ack = ProtoField.uint32("openspin.ack", "Acknowledged below"),
    sack = ProtoField.uint64("openspin.sack", "Acknowledged beyond", base.HEX),
    message_number = ProtoField.uint32("openspin.message_number", "Message number"),
    bytes = ProtoField.uint32("openspin.bytes", "Bytes of data"),
    offset = ProtoField.uint64("openspin.offset", "Offset in the message", base.DEC),
    message_kind = ProtoField.uint8("openspin.message_kind", "Kind of message", base.DEC, messages),
    interface = ProtoField.uint8("openspin.interface", "Interface", base.DEC, interfaces),
    ack_req = ProtoField.uint8("openspin.ack_req", "Acknowledgement wanted", base.DEC, acks),
    operation = ProtoField.uint8("openspin.operation", "Atomic operation", base.DEC, operations),
    datatype = ProtoField.uint8("openspin.datatype", "Type", base.DEC, datatypes),
    fail = ProtoField.uint8("openspin.fail", "Result", base.DEC, fails),
    list = ProtoField.uint8("openspin.list", "Matched in", base.DEC, lists),
    uid = ProtoField.uint32("openspin.uid", "User"),
    source_rank = ProtoField.int32("openspin.source.rank", "Source rank"),
    target_rank = ProtoField.int32("openspin.target.rank", "Target rank"),
    pt_index = ProtoField.uint32("openspin.pt_index", "Portal table index"),
    match_bits = ProtoField.uint64("openspin.match_bits", "Match bits", base.HEX),
    hdr_data = ProtoField.uint64("openspin.hdr_data", "Header data", base.HEX),
    remote_offset = ProtoField.uint64("openspin.remote_offset", "Remote offset", base.DEC),
    length = ProtoField.uint64("openspin.length", "Length", base.DEC),
    payload = ProtoField.uint64("openspin.payload", "Bytes that travel", base.DEC),
    initiator = ProtoField.uint64("openspin.initiator", "Initiator's operation", base.HEX),
    operand = ProtoField.bytes("openspin.operand", "Operand"),
    transfer = ProtoField.uint64("openspin.transfer", "Transfer in blocks", base.HEX),
    block = ProtoField.uint32("openspin.block", "Block"),
    transmission = ProtoField.uint32("openspin.transmission", "Transmission of the block"),
    each = ProtoField.uint32("openspin.each", "Bytes of each packet of a run"),
    block_bytes = ProtoField.uint32("openspin.block_bytes", "Bytes of a block"),
    place = ProtoField.uint8("openspin.place", "Place in the block"),
    report = ProtoField.uint8("openspin.report", "Report of the block", base.DEC, reports),
    data = ProtoField.bytes("openspin.data", "Data"),
    lent = ProtoField.uint64("openspin.lent", "Data beside the packet, from", base.HEX),
}
openspin.fields = f

local expert_malformed = ProtoExpert.new("openspin.malformed.expert", "Malformed packet",
                                         expert.group.MALFORMED, expert.severity.ERROR)
openspin.experts = { expert_malformed }

-- What later packets of a message are of: the operation of its first, by who sends it to whom.
local operation_of = {}
function openspin.init()
    operation_of = {}
end

local function message_key(source, target, stream, number)
    return table.concat({ source, target, stream, number }, "/")
end

local function named(list, value)
    return list[value] or ("unknown (" .. value .. ")")
end

local function operation_name(kind, operation)
    if kind == 3 and operation >= FIRST_SWAP then
        return "swap"
    end
    return named(messages, kind)
end

-- Bytes behind the header: data, or where the sender has it if it goes beside the packet.
local function add_data(tree, tvb, at, bytes)
    local left = tvb:reported_length_remaining(at)
    if left == 8 and bytes > 4096 then
        tree:add_le(f.lent, tvb(at, 8))
        return nil
    end
    if left ~= bytes then
        return "length differs from what its header says"
    end
    if bytes > 0 then
        tree:add(f.data, tvb(at, bytes))
    end
    return nil
end

-- The short form: see wire.h. Returns operation, what the column says, and what is wrong.
local function short_form(tree, tvb)
    local ack, flags, seven = tvb(5, 1):uint() == SHORT_ACK, tvb(6, 1):uint(), tvb(7, 1):uint()
    local bytes = ack and 0 or tvb(5, 1):uint() % 64 * 256 + seven
    local op = ack and "ack" or "put"
    tree:add(f.short, tvb(5, 1), true)
    tree:add(f.first, tvb(5, 1), true)
    tree:add(f.last, tvb(5, 1), true)
    tree:add(f.message_kind, tvb(5, 1), ack and 4 or 0)
    tree:add(f.ack_req, tvb(6, 1), flags % 4)
    tree:add(f.interface, tvb(6, 1), math.floor(flags / 4) % 16)
    tree:add(f.list, tvb(6, 1), math.floor(flags / 64) % 2)
    if ack then
        tree:add(f.fail, tvb(7, 1))
    else
        tree:add(f.bytes, tvb(7, 1), bytes)
    end
    tree:add_le(f.source_nid, tvb(8, 4))
    tree:add_le(f.target_nid, tvb(12, 4))
    tree:add_le(f.source_pid, tvb(16, 2))
    tree:add_le(f.target_pid, tvb(18, 2))
    tree:add_le(f.message_number, tvb(20, 4))
    tree:add_le(ack and f.length or f.match_bits, tvb(24, 8))
    tree:add_le(f.remote_offset, tvb(32, 4))
    tree:add_le(f.uid, tvb(36, 2))
    tree:add_le(f.pt_index, tvb(38, 2))
    tree:add_le(f.source_rank, tvb(40, 4))
    tree:add_le(f.target_rank, tvb(44, 4))
    if bytes > SHORT_MOST then
        return op, "", "more data than the short form has"
    end
    local has_initiator = flags >= 128
    tree:add_le(has_initiator and f.initiator or f.hdr_data, tvb(48, 8))
    if has_initiator and tvb(48, 8):le_uint64() == UInt64(0) then
        return op, "", "an initiator that is none"
    end
    local info = ack and string.format("%s, pt %u", named(fails, seven), tvb(38, 2):le_uint())
        or string.format("%u bytes, pt %u", bytes, tvb(38, 2):le_uint())
    return op, info, add_data(tree, tvb, SHORT, bytes)
end

local function message_header(tree, tvb)
    if tvb:reported_length_remaining(LONG) < MESSAGE then
        return nil, nil, "shorter than a message's header"
    end
    local kind, operation = tvb(64, 1):uint(), tvb(67, 1):uint()
    local operand, payload = tvb(71, 1):uint(), tvb(120, 8):le_uint64()
    tree:add(f.message_kind, tvb(64, 1))
    tree:add(f.interface, tvb(65, 1))
    tree:add(f.ack_req, tvb(66, 1))
    if kind == 2 or kind == 3 then
        tree:add(f.operation, tvb(67, 1))
        tree:add(f.datatype, tvb(68, 1))
    elseif kind >= 4 then
        tree:add(f.fail, tvb(69, 1))
        tree:add(f.list, tvb(70, 1))
    end
    tree:add_le(f.uid, tvb(72, 4))
    tree:add_le(f.source_rank, tvb(76, 4))
    tree:add_le(f.target_rank, tvb(80, 4))
    tree:add_le(f.pt_index, tvb(84, 4))
    tree:add_le(f.match_bits, tvb(88, 8))
    tree:add_le(f.hdr_data, tvb(96, 8))
    tree:add_le(f.remote_offset, tvb(104, 8))
    tree:add_le(f.length, tvb(112, 8))
    tree:add_le(f.payload, tvb(120, 8))
    tree:add_le(f.initiator, tvb(128, 8))
    if not messages[kind] or operand ~= (kind == 3 and 32 or 0) then
        return nil, nil, "unknown kind of message"
    end
    if tvb:reported_length_remaining(LONG + MESSAGE) < operand then
        return nil, nil, "shorter than its operand"
    end
    if operand > 0 then
        tree:add(f.operand, tvb(LONG + MESSAGE, operand))
    end
    local bytes, last = UInt64(tvb(52, 4):le_uint()), math.floor(tvb(6, 1):uint() / 2) % 2 == 1
    if tvb(56, 8):le_uint64() ~= UInt64(0) or bytes > payload or last ~= (bytes == payload) then
        return nil, nil, "first packet that contradicts its message's length"
    end
    local info = string.format("%s bytes, pt %u", tostring(payload), tvb(84, 4):le_uint())
    if kind == 2 or kind == 3 then
        info = named(operations, operation) .. " of " .. named(datatypes, tvb(68, 1):uint()) ..
            ", " .. info
    elseif kind >= 4 then
        info = named(fails, tvb(69, 1):uint()) .. ", " .. info
    end
    return operation_name(kind, operation), info, nil, LONG + MESSAGE + operand
end

-- Whether a first packet that is right fits into the short form.
local function is_short(tvb)
    local kind = tvb(64, 1):uint()
    local function is_zero(at, bytes)
        for i = at, at + bytes - 1 do
            if tvb(i, 1):uint() ~= 0 then
                return false
            end
        end
        return true
    end
    if tvb(6, 1):uint() ~= 3 or not is_zero(7, 1) or not is_zero(24, 24) or not is_zero(67, 2) or
        not is_zero(14, 2) or not is_zero(22, 2) or not is_zero(74, 2) or not is_zero(86, 2) or
        not is_zero(108, 4) or tvb(65, 1):uint() > 15 or tvb(66, 1):uint() > 3 or
        tvb(70, 1):uint() > 1 or not (is_zero(96, 8) or is_zero(128, 8)) then
        return false
    end
    local bytes, payload = tvb(52, 4):le_uint(), tvb(120, 8):le_uint64()
    if kind == 0 then
        return bytes <= SHORT_MOST and tvb(112, 8):le_uint64() == payload and tvb(69, 1):uint() == 0
    end
    return kind == 4 and bytes == 0 and is_zero(88, 8)
end

-- Of a packet of a block, or of a report of one. Returns what the column says, and what is wrong.
local function block_tag(tree, tvb, report)
    if tvb:reported_length_remaining(LONG) < TAG then
        return "", "shorter than the tag of a block"
    end
    local block, transmission = tvb(72, 4):le_uint(), tvb(76, 4):le_uint()
    local block_bytes, place = tvb(80, 4):le_uint(), tvb(84, 1):uint()
    tree:add_le(f.transfer, tvb(64, 8))
    tree:add_le(f.block, tvb(72, 4))
    tree:add_le(f.transmission, tvb(76, 4))
    tree:add(report and f.report or f.place, tvb(84, 1))
    if tvb(85, 1):uint() + tvb(86, 2):uint() > 0 or place > (report and 4 or 63) then
        return "", "unknown report, or more packets than a block has"
    end
    if transmission == 0 or report ~= (block_bytes == 0) then
        return "", "a block that was never sent, or without a size"
    end
    if report then
        return string.format("block %u, transmission %u: %s", block, transmission, reports[place])
    end
    tree:add_le(f.block_bytes, tvb(80, 4))
    if tvb(56, 8):le_uint64() / UInt64(block_bytes) ~= UInt64(block) then
        return "", "data of another block"
    end
    return string.format("block %u, transmission %u, %u bytes from %s on", block, transmission,
                         tvb(52, 4):le_uint(), tostring(tvb(56, 8):le_uint64()))
end

local function long_form(tree, tvb)
    local kind, flags = tvb(5, 1):uint(), tvb(6, 1):uint()
    local bytes, first = tvb(52, 4):le_uint(), flags % 2 == 1
    local joined = kind == JOINED
    kind = joined and 0 or kind
    tree:add(f.short, tvb(5, 1), false)
    tree:add(f.first, tvb(6, 1), first)
    tree:add(f.last, tvb(6, 1), math.floor(flags / 2) % 2 == 1)
    tree:add(f.bad, tvb(6, 1), math.floor(flags / 4) % 2 == 1)
    tree:add(f.prompt, tvb(6, 1), math.floor(flags / 8) % 2 == 1)
    local credit = tvb(7, 1):uint()
    if credit > 0 then
        tree:add(f.credit, tvb(7, 1), (credit % 32) * 2 ^ math.floor(credit / 32) - 1)
    end
    tree:add_le(f.source_nid, tvb(8, 4))
    tree:add_le(f.source_pid, tvb(12, 4))
    tree:add_le(f.target_nid, tvb(16, 4))
    tree:add_le(f.target_pid, tvb(20, 4))
    tree:add_le(f.stream, tvb(24, 4))
    tree:add_le(f.sequence, tvb(28, 4))
    tree:add_le(f.ack_stream, tvb(32, 4))
    tree:add_le(f.ack, tvb(36, 4))
    tree:add_le(f.sack, tvb(40, 8))
    tree:add_le(f.message_number, tvb(48, 4))
    tree:add_le(f.bytes, tvb(52, 4))
    tree:add_le(f.offset, tvb(56, 8))
    if kind > REPORT or flags > 15 or not (credit < 32 or credit % 32 >= 16) then
        return "?", "", "unknown kind, flag or credit"
    end
    local nothing = UInt64(0)
    local offset = tvb(56, 8):le_uint64()
    local empty = bytes == 0 and offset == nothing
    if kind == REPORT then
        if not empty or (flags ~= 0 and flags ~= 8) then
            return kinds[kind], "", "a report of a block with data"
        end
        local info, wrong = block_tag(tree, tvb, true)
        return kinds[kind], info, wrong or add_data(tree, tvb, LONG + TAG, 0)
    end
    if kind ~= 0 and kind ~= BLOCK then
        local holds = not empty or flags ~= 0 or tvb(48, 4):le_uint() ~= 0
        local wrong = holds and "a receipt or probe with data" or nil
        return kinds[kind], string.format("below %u", tvb(36, 4):le_uint()),
               wrong or add_data(tree, tvb, LONG, 0)
    end
    if kind == BLOCK and (first or bytes == 0) then
        return "block", "", "a packet of a block without data, or the first of its message"
    end
    if kind ~= BLOCK and not first and (bytes == 0 or offset == nothing) then
        return "data", "", "neither the first of its message nor with data of its own"
    end
    if offset + bytes < offset then
        return "data", "", "data past the end of all numbers"
    end
    if joined then
        local each = tvb(64, 8):le_uint64()
        tree:add_le(f.each, tvb(64, 4))
        if first or math.floor(flags / 4) % 2 == 1 or each == nothing or
            each >= UInt64(0, 1) or UInt64(bytes) <= each then
            return "run", "", "several packets that are none"
        end
        return "run", string.format("%u bytes from %s on, in packets of %s", bytes,
                                    tostring(offset), tostring(each)),
               add_data(tree, tvb, JOINED_BYTES, bytes)
    end
    local key = message_key(tvb(8, 8):le_uint64():tohex(), tvb(16, 8):le_uint64():tohex(),
                            tvb(24, 4):le_uint(), tvb(48, 4):le_uint())
    if kind == BLOCK then
        local info, wrong = block_tag(tree, tvb, false)
        return operation_of[key] or "block", info, wrong or add_data(tree, tvb, LONG + TAG, bytes)
    end
    if not first then
        return operation_of[key] or "data",
               string.format("%u bytes from %s on", bytes, tostring(offset)),
               add_data(tree, tvb, LONG, bytes)
    end
    local op, info, wrong, header = message_header(tree, tvb)
    if wrong then
        return op or "?", info or "", wrong
    end
    operation_of[key] = op
    return op, info, is_short(tvb) and "long where the short form is enough" or
        add_data(tree, tvb, header, bytes)
end

local function packet(tree, tvb)
    local length = tvb:reported_len()
    if length < SHORT then
        return "?", "", "shorter than a packet's header"
    end
    if tvb(0, 4):string() ~= MAGIC then
        return "?", "", "not a packet of ours"
    end
    tree:add(f.magic, tvb(0, 4))
    tree:add(f.version, tvb(4, 1))
    tree:add(f.kind, tvb(5, 1))
    if tvb(4, 1):uint() ~= VERSION then
        return "?", "", "another version of the format"
    end
    local kind = tvb(5, 1):uint()
    if kind == SHORT_ACK or math.floor(kind / 64) == 1 then
        return short_form(tree, tvb)
    end
    if kind == JOINED and length < JOINED_BYTES then
        return "?", "", "shorter than the header of several packets"
    end
    if length < LONG then
        return "?", "", "shorter than a packet's header"
    end
    return long_form(tree, tvb)
end

local function has_head(tvb)
    return tvb:len() >= HEAD_BYTES + SHORT and tvb(0, 4):string() ~= MAGIC and
        tvb(HEAD_BYTES, 4):string() == MAGIC
end

function openspin.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "openspin"
    local tree = root:add(openspin, tvb())
    local inner = tvb
    if has_head(tvb) then
        tree:add(f.key, tvb(0, 16))
        tree:add_le(f.checksum, tvb(16, 8))
        inner = tvb(HEAD_BYTES):tvb()
    end
    local op, info, wrong = packet(tree, inner)
    tree:add(f.op, op):set_generated()
    pinfo.cols.info = op .. " " .. info
    if wrong then
        tree:add(f.malformed, wrong):set_generated()
        tree:add_proto_expert_info(expert_malformed, wrong)
        pinfo.cols.info = "malformed: " .. wrong
    end
    return tvb:len()
end

-- By port, and wherever else the magic is.
DissectorTable.get("udp.port"):add(PORT .. "-" .. (PORT + PIDS - 1), openspin)
openspin:register_heuristic("udp", function(tvb, pinfo, root)
    if tvb:len() < SHORT or not (tvb(0, 4):string() == MAGIC or has_head(tvb)) then
        return false
    end
    openspin.dissector(tvb, pinfo, root)
    return true
end)
