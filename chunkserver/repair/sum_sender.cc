#include "chunkserver/repair/sum_sender.h"

#include <algorithm>

#include "common/base/crc32c.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint64_t kFrameBytes = 1 << 20;

}  // namespace

asio::awaitable<Status> SumSender::send(uint64_t offset, std::span<const std::span<std::byte>> sums,
                                        uint64_t nonzero_bytes) {
  if (outputs_.empty()) {
    for (uint32_t sum = 0; sum < sums.size(); ++sum)
      outputs_.push_back(sum);
  }
  const TimePoint began = clock_.now();
  const uint64_t step = kFrameBytes / outputs_.size();
  for (uint64_t at = 0; at < nonzero_bytes; at += step) {
    KINTSUGI_CO_TRY(co_await send_frame(offset, at, std::min(step, nonzero_bytes - at), sums));
  }
  if (nonzero_bytes < sums.front().size()) {
    proto::PartialSumData zeros;
    zeros.set_offset(offset + nonzero_bytes);
    zeros.set_zero_bytes(sums.front().size() - nonzero_bytes);
    KINTSUGI_CO_TRY(co_await stream_.send(zeros));
  }
  send_seconds_ += to_seconds(clock_.now() - began);
  co_return Status{};
}

asio::awaitable<Status> SumSender::send_nothing() {
  proto::PartialSumData nothing;
  co_return co_await stream_.send(nothing);
}

asio::awaitable<Status> SumSender::send_frame(uint64_t offset, uint64_t at, uint64_t bytes,
                                              std::span<const std::span<std::byte>> sums) {
  proto::PartialSumData data;
  data.set_offset(offset + at);
  uint32_t crc = 0;
  payload_.clear();
  for (uint32_t output : outputs_) {
    const std::span<std::byte> part = sums[output].subspan(at, bytes);
    crc = payload_.empty() ? crc32c(part) : crc32c_combine(crc, crc32c(part), bytes);
    payload_.emplace_back(part.data(), part.size());
  }
  data.set_crc(crc);
  bytes_out_ += bytes * outputs_.size();
  if (pace_ != nullptr) {
    const runtime::Wait wait(context_, runtime::WaitKind::kTimer);
    co_await pace_->pass(bytes * outputs_.size());
  }
  co_return co_await stream_.send(data, payload_);
}

}  // namespace kintsugi::chunkserver
