#include "common/rpc/batch_writer.h"

namespace kintsugi::rpc {
namespace {

constexpr size_t kKeptBufferBytes = 1 << 20;  ///< a larger buffer is given back after its write

}  // namespace

void BatchWriter::append(const FrameHeader& header, std::string_view message) {
  if (stopped_) return;
  auto fixed = encode_frame_header(header, std::as_bytes(std::span(message)));
  queued_.append(reinterpret_cast<const char*>(fixed.data()), fixed.size());
  queued_.append(message);
  ready_.notify();
}

asio::awaitable<Status> BatchWriter::write_batch(BufferedConnection& connection) {
  while (queued_.empty() && !stopped_)
    co_await ready_.wait();
  if (stopped_) co_return Status{Code::kCancelled, "connection closed"};
  // Frames that are appended during this write go into the other buffer and leave in the next batch.
  std::swap(queued_, writing_);
  connection.set_writing_since(clock_.now());
  asio::const_buffer buffer(writing_.data(), writing_.size());
  Status written = co_await connection.write(std::span(&buffer, 1));
  connection.set_writing_since(TimePoint::max());
  writing_.clear();
  if (writing_.capacity() > kKeptBufferBytes) writing_.shrink_to_fit();
  co_return written;
}

void BatchWriter::stop() {
  stopped_ = true;
  ready_.notify();
}

}  // namespace kintsugi::rpc
