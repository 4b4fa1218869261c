#include "client/lib/files/read_streams.h"

#include <algorithm>

namespace kintsugi::client {

ReadStreams::Stream* ReadStreams::note(uint64_t offset, uint64_t length) {
  ++clock_;
  Stream* oldest = &streams_.front();
  for (Stream& stream : streams_) {
    const bool follows = stream.used != 0 && offset <= stream.next + (stream.ahead_bytes > 0 ? kSlack : 0) &&
                         offset + kSlack >= stream.next && offset + length > stream.next;
    // Before it is known to be one, a stream has to continue exactly where it was.
    if (follows && (stream.ahead_bytes > 0 || offset == stream.next)) {
      stream.next = offset + length;
      stream.used = clock_;
      return &stream;
    }
    if (stream.used != 0 && stream.ahead_bytes > 0 && offset < stream.next &&
        offset + kSlack >= stream.next) {
      stream.used = clock_;  // an older request of the stream that arrives late
      return nullptr;
    }
    if (stream.used < oldest->used) oldest = &stream;
  }
  *oldest = {.next = offset + length, .ahead_to = offset + length, .used = clock_};
  return offset == 0 ? oldest : nullptr;
}

bool ReadStreams::passed(uint64_t begin, uint64_t end) const {
  return std::ranges::none_of(streams_, [&](const Stream& stream) {
    return stream.used != 0 && stream.ahead_bytes > 0 && end + kSlack > stream.next &&
           begin < stream.ahead_to;
  });
}

}  // namespace kintsugi::client
