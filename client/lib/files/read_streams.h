/// Recognises readers that go through a file in order. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace kintsugi::client {

/// A few readers at a time are told apart; the kernel may hand their requests over a little out of order.
class ReadStreams {
 public:
  struct Stream {
    uint64_t next = 0;         ///< offset of the expected next read
    uint64_t ahead_to = 0;     ///< what lies before this offset was read ahead
    uint64_t ahead_bytes = 0;  ///< how far to read ahead: grows as the stream continues; 0: not yet
    uint64_t used = 0;
  };
  static constexpr uint64_t kFirstAhead = 512 << 10;
  static constexpr uint64_t kSlack = 2 << 20;  ///< reads may be out of order by so much

  /// A read came. Returns its stream when it continues in order, else null. A file read from its beginning is taken for
  /// one.
  Stream* note(uint64_t offset, uint64_t length);
  /// The stream continued as far as it was read ahead: next time further.
  static void widen(Stream& stream, uint64_t most) {
    stream.ahead_bytes = stream.ahead_bytes == 0 ? kFirstAhead : std::min(most, 2 * stream.ahead_bytes);
  }
  void reset() { streams_ = {}; }
  /// Nobody is expected to want what lies before, of those that have gone past `offset`.
  bool passed(uint64_t begin, uint64_t end) const;

 private:
  std::array<Stream, 4> streams_{};
  uint64_t clock_ = 0;
};

}  // namespace kintsugi::client
