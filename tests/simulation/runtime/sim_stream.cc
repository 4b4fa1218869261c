#include "tests/simulation/runtime/sim_stream.h"

#include <algorithm>
#include <cstring>

#include "common/base/assert.h"
#include "tests/simulation/runtime/sim_wire.h"

namespace kintsugi::simulation {
namespace {

/// A reader of many bytes is woken once for this many. Well below the window, or reader and writer would wait
/// for each other.
constexpr size_t kWakeBytes = 256 * 1024;
static_assert(kWakeBytes * 2 <= Stream::kWindowBytes);

Status closed_here() {
  return {Code::kCancelled, "connection closed"};
}

size_t total_bytes(std::span<const asio::const_buffer> buffers) {
  size_t total = 0;
  for (const auto& buffer : buffers)
    total += buffer.size();
  return total;
}

/// Reads across a list of buffers.
class Gatherer {
 public:
  explicit Gatherer(std::span<const asio::const_buffer> buffers) : buffers_(buffers) {}

  Segment next(size_t bytes) {
    Segment segment;
    segment.bytes.reset(new std::byte[bytes]);
    segment.size = bytes;
    for (size_t done = 0; done < bytes;) {
      const auto& buffer = buffers_[index_];
      const size_t part = std::min(buffer.size() - offset_, bytes - done);
      if (part > 0) {
        std::memcpy(segment.bytes.get() + done, static_cast<const std::byte*>(buffer.data()) + offset_, part);
      }
      done += part;
      offset_ += part;
      if (offset_ == buffer.size()) {
        ++index_;
        offset_ = 0;
      }
    }
    return segment;
  }

 private:
  std::span<const asio::const_buffer> buffers_;
  size_t index_ = 0;
  size_t offset_ = 0;
};

}  // namespace

size_t SimConnection::take(Stream& stream, int side, std::span<std::byte> into) {
  End& end = stream.ends[side];
  size_t done = 0;
  while (done < into.size() && !end.received.empty()) {
    const Segment& segment = end.received.front();
    const size_t part = std::min(segment.size - end.read_offset, into.size() - done);
    std::memcpy(into.data() + done, segment.bytes.get() + end.read_offset, part);
    done += part;
    end.read_offset += part;
    if (end.read_offset == segment.size) {
      end.received.pop_front();
      end.read_offset = 0;
    }
  }
  end.received_bytes -= done;
  End& writer = stream.ends[1 - side];
  writer.outstanding_bytes -= done;
  if (writer.outstanding_bytes < Stream::kWindowBytes) writer.writable.open();
  return done;
}

asio::awaitable<Result<size_t>> SimConnection::read_some(std::span<std::byte> into) {
  KINTSUGI_ASSERT(!into.empty());
  const auto stream = stream_;
  const int side = side_;
  End& end = stream->ends[side];
  KINTSUGI_ASSERT(!end.reading);
  end.reading = true;
  end.wanted = 1;
  while (!end.can_read())
    co_await end.readable.wait();
  end.reading = false;
  if (end.closed) co_return closed_here();
  if (end.received_bytes > 0) co_return take(*stream, side, into);
  if (!end.failure.ok()) co_return end.failure;
  co_return size_t{0};
}

asio::awaitable<Status> SimConnection::read_exact(std::span<std::byte> into) {
  const auto stream = stream_;
  const int side = side_;
  End& end = stream->ends[side];
  KINTSUGI_ASSERT(!end.reading);
  end.reading = true;
  Status status;
  for (size_t done = 0; done < into.size();) {
    end.wanted = std::min(into.size() - done, kWakeBytes);
    while (!end.can_read())
      co_await end.readable.wait();
    if (end.closed) {
      status = closed_here();
      break;
    }
    if (end.received_bytes == 0) {
      status = end.failure.ok() ? Status{Code::kUnavailable, "the stream ended"} : end.failure;
      break;
    }
    done += take(*stream, side, into.subspan(done));
  }
  end.reading = false;
  co_return status;
}

asio::awaitable<Status> SimConnection::write(std::span<const asio::const_buffer> buffers) {
  KINTSUGI_ASSERT(buffers.size() <= kMaxGather);
  const auto stream = stream_;
  const int side = side_;
  Wire& wire = wire_;
  End& end = stream->ends[side];
  KINTSUGI_ASSERT(!end.writing);
  end.writing = true;
  Gatherer gather(buffers);
  for (size_t left = total_bytes(buffers); left > 0 && end.alive();) {
    while (end.alive() && end.outstanding_bytes >= Stream::kWindowBytes)
      co_await end.writable.wait();
    if (!end.alive()) break;
    const size_t bytes = std::min(left, Segment::kMaxBytes);
    end.outstanding_bytes += bytes;
    wire.send(stream, side, gather.next(bytes));
    left -= bytes;
  }
  end.writing = false;
  if (end.closed) co_return closed_here();
  co_return end.failure;
}

void SimConnection::close() {
  wire_.close(stream_, side_);
}

}  // namespace kintsugi::simulation
