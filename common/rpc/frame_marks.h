/// Where frames leave and arrive, for whoever traces this process: these functions do nothing. A trace has their calls with the
/// arguments (tracing/), and nobody else has to know that there are traces.
#pragma once

#include <cstdint>

#include "common/rpc/frame.h"

namespace kintsugi::rpc {

/// `channel`: a connection and one of its directions, the same number at both ends. `number`: how many frames went that way
/// before. `word`: method << 16 | flags.
void frame_sent(uint64_t channel, uint64_t number, uint64_t bytes, uint64_t call, uint64_t word);
void frame_received(uint64_t channel, uint64_t number, uint64_t bytes, uint64_t call, uint64_t word);

/// Counts the frames of one connection.
class FrameMarks {
 public:
  /// `connection` is a number that both ends know; the side that dialled says so.
  void begin(uint64_t connection, bool dialled) {
    out_ = (connection & ~uint64_t{1}) | (dialled ? 1 : 0);
    in_ = out_ ^ 1;
  }
  /// The same number at both ends; 0: it is not known yet.
  uint64_t connection() const { return out_ & ~uint64_t{1}; }
  void sent(const FrameHeader& header, size_t bytes) {
    frame_sent(out_, sent_++, bytes, header.request_id, word_of(header));
  }
  void received(const FrameHeader& header, size_t bytes) {
    frame_received(in_, received_++, bytes, header.request_id, word_of(header));
  }

 private:
  static uint64_t word_of(const FrameHeader& header) {
    return static_cast<uint64_t>(header.method) << 16 | header.flags;
  }
  uint64_t out_ = 0, in_ = 0, sent_ = 0, received_ = 0;
};

}  // namespace kintsugi::rpc
