#include "repair_tree/child_sum.h"

#include "erasure/multiply.h"
#include "monitoring/sight/module.h"
#include "repair_tree/frames.h"

namespace kintsugi::repair_tree {
namespace {

constexpr sight::Site kChild{"repair_tree.child_sum", {"bytes", "slice_bytes"}, {"network_seconds"}};
/// Of a frame; senders keep to 1 MiB.
constexpr uint32_t kMaxFrameBytes = 1 << 20;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

ChildSum::ChildSum(const runtime::Runtime& runtime, rpc::Client& client, SliceWindow& window,
                   const proto::PartialSumRequest& request, const proto::RepairNode& node)
    : runtime_(runtime), client_(client), window_(window), request_(request) {
  *request_.mutable_node() = node;
}

asio::awaitable<Status> ChildSum::run(Context context) {
  sight::Module module{context, kChild, {double(request_.length()), double(request_.slice_bytes())}};
  Status status = co_await receive_all(module.context());
  module.output(0, network_seconds_);
  if (!status.ok()) close();
  co_return module.finish(status.with_context(fmt::format("server {}", request_.node().server_id())));
}

void ChildSum::close() {
  closed_ = true;
  if (stream_) stream_->close();
}

asio::awaitable<Status> ChildSum::receive_all(Context context) {
  KINTSUGI_CO_ASSIGN(runtime::Endpoint address, runtime::Endpoint::parse(request_.node().address()));
  auto stream = co_await client_.open_stream(context, address, rpc::Method::kPartialSum, request_);
  if (!stream) co_return stream.error();
  stream_ = std::move(*stream);
  if (closed_) co_return Status{Code::kCancelled, "the tree failed"};
  for (size_t slice = 0; slice < window_.range().slices(); ++slice) {
    KINTSUGI_CO_TRY(co_await window_.wait_open(slice));
    KINTSUGI_CO_TRY(co_await receive_slice(slice));
    window_.contributed(slice);
  }
  KINTSUGI_CO_TRY(co_await finish());
  client_.finish(address, std::move(stream_));
  co_return Status{};
}

asio::awaitable<Status> ChildSum::receive_slice(size_t slice) {
  const uint64_t bytes = window_.range().bytes_of(slice);
  const TimePoint began = runtime_.clock.now();
  const double computed = compute_seconds_;
  uint64_t received = 0;
  while (received < bytes) {
    auto covered = co_await receive_frame(slice, received);
    if (!covered) co_return covered.error();
    received += *covered;
  }
  network_seconds_ += seconds(runtime_.clock.now() - began) - (compute_seconds_ - computed);
  co_return Status{};
}

Status ChildSum::check_frame(const proto::PartialSumData& data, uint32_t payload_bytes, size_t slice,
                             uint64_t received) const {
  const SumRange& range = window_.range();
  const uint64_t expected = range.offset + range.begin_of(slice) + received;
  const uint64_t left = range.bytes_of(slice) - received;
  if (payload_bytes == 0 && data.zero_bytes() == 0) return {};
  if (data.offset() != expected) {
    return {Code::kInvalidArgument,
            fmt::format("partial sum of offset {} instead of {}", data.offset(), expected)};
  }
  if (payload_bytes > 0 && data.zero_bytes() > 0) {
    return {Code::kInvalidArgument, "partial sum with both a payload and zeros"};
  }
  if (payload_bytes > kMaxFrameBytes || payload_bytes % range.sums != 0 ||
      payload_bytes / range.sums > left || data.zero_bytes() > left) {
    return {Code::kInvalidArgument, "partial sum of more bytes than its slice has"};
  }
  return {};
}

asio::awaitable<Result<uint64_t>> ChildSum::receive_frame(size_t slice, uint64_t received) {
  const SumRange& range = window_.range();
  proto::PartialSumData data;
  proto::PartialSumDone early;
  auto frame = co_await receive_either(*stream_, data, early);
  if (!frame) co_return frame.error();
  if (frame->end) co_return Status{Code::kInvalidArgument, "the partial sum ended early"};
  KINTSUGI_CO_TRY(check_frame(data, frame->payload_bytes, slice, received));
  if (frame->payload_bytes == 0) co_return data.zero_bytes();

  frame_.resize(frame->payload_bytes);
  KINTSUGI_CO_TRY(co_await stream_->receive_payload(frame_));
  KINTSUGI_CO_TRY(window_.failure());
  bytes_in_ += frame->payload_bytes;
  const TimePoint began = runtime_.clock.now();
  if (crc32c(frame_) != data.crc()) {
    co_return Status{Code::kCorrupt,
                     fmt::format("partial sum of offset {}: checksum mismatch", data.offset())};
  }
  const uint64_t bytes = frame->payload_bytes / range.sums;
  for (uint32_t sum = 0; sum < range.sums; ++sum) {
    erasure::xor_into(std::span(frame_).subspan(sum * bytes, bytes),
                      window_.sum(slice, sum).subspan(received, bytes));
  }
  window_.reached(slice, received + bytes);
  compute_seconds_ += seconds(runtime_.clock.now() - began);
  co_return bytes;
}

asio::awaitable<Status> ChildSum::finish() {
  proto::PartialSumData more;
  auto frame = co_await receive_either(*stream_, more, done_);
  while (frame && !frame->end && frame->payload_bytes == 0 && more.zero_bytes() == 0) {
    frame = co_await receive_either(*stream_, more, done_);
  }
  if (!frame) co_return frame.error();
  if (!frame->end) co_return Status{Code::kInvalidArgument, "the partial sum does not end"};
  proto::Empty end;
  co_return co_await stream_->send_end(end);
}

}  // namespace kintsugi::repair_tree
