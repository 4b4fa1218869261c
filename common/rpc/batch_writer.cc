#include "common/rpc/batch_writer.h"

#include <cstring>
#include <span>

namespace kintsugi::rpc {
namespace {

constexpr size_t kKeptBufferBytes = 1 << 20;  ///< a buffer larger than this is freed after its write

}  // namespace

void FrameBody::write(std::byte* to) const {
  if (message_ != nullptr) {
    message_->SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(to));
  } else if (!bytes_.empty()) {
    std::memcpy(to, bytes_.data(), bytes_.size());
  }
}

void BatchWriter::append(const FrameHeader& header, const FrameBody& body) {
  if (stopped_) return;
  const size_t begin = queued_.size();
  queued_.resize(begin + kFrameHeaderBytes + body.size());
  std::byte* const frame = std::as_writable_bytes(std::span(queued_)).data() + begin;
  body.write(frame + kFrameHeaderBytes);
  const auto fixed = encode_frame_header(header, {frame + kFrameHeaderBytes, body.size()});
  std::memcpy(frame, fixed.data(), fixed.size());
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
