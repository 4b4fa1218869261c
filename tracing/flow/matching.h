/// Which bytes that were received are which that were sent (Mirgorodskiy 2006, sections 3.3.6 and 4.1).
#pragma once

#include "tracing/flow/trace.h"

namespace kintsugi::flow {

/// A piece of a stream, or a datagram, that one send and one receive have in common: streams are cut wherever a send or
/// receive begins or ends (figure 4.1). Of what only one side recorded, the other event is kNone.
struct Unit {
  EventId send = kNone, recv = kNone;
  uint32_t send_piece = 0, recv_piece = 0;  ///< counted from 1 in the order of the stream; 0 of kNone
  int64_t begin = 0, end = 0;               ///< bytes of the stream; of a datagram, its mark and mark + size
};

struct Matching {
  /// By channel, then by place in it.
  std::vector<Unit> units;
  /// Messages that claim bytes of the stream another one of their side had already: they keep what is left. Datagrams
  /// whose mark was taken count, too, and keep nothing.
  size_t overlaps = 0;
};

/// Streams by their bytes, datagrams by equal marks. Never more than two units for each message. Messages of no bytes
/// have none. O(n log n).
Matching match_messages(const Trace& trace);

}  // namespace kintsugi::flow
