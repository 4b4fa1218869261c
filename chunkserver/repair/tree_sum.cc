#include "chunkserver/repair/tree_sum.h"

#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kOwn{"chunkserver.partial_sum_own", {"bytes"}, {"read_seconds"}};

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

TreeSum::TreeSum(RepairParts& parts, repair_tree::SumRange range, const proto::PartialSumRequest& request,
                 const repair_tree::Children& children, const OwnChunk* own)
    : parts_(parts),
      runtime_(parts.runtime),
      registered_(parts.running.insert(parts.running.end(), this)),
      own_(own),
      receiver_(parts.runtime, parts.client, range, request, children, own == nullptr ? nullptr : this) {
  if (own != nullptr) {
    table_.emplace(
        std::span(reinterpret_cast<const uint8_t*>(own->coefficients.data()), own->coefficients.size()));
  }
}

TreeSum::~TreeSum() {
  parts_.running.erase(registered_);
}

void RepairParts::stop() {
  stopping = true;
  for (TreeSum* sum : running)
    sum->fail({Code::kCancelled, "the server is stopping"});
}

asio::awaitable<Status> TreeSum::run(Context context, repair_tree::SumSink& sink) {
  if (parts_.stopping) co_return Status{Code::kCancelled, "the server is stopping"};
  co_return co_await receiver_.run(context, sink);
}

asio::awaitable<Status> TreeSum::contribute(Context context, repair_tree::SliceWindow& window) {
  sight::Module module{context, kOwn, {double(window.range().length)}};
  const TimePoint began = runtime_.clock.now();
  auto reader = co_await parts_.store.open(module.context(), own_->id);
  if (!reader) co_return module.finish(reader.error());
  read_seconds_ += seconds(runtime_.clock.now() - began);
  if ((*reader)->length() != own_->length) {
    co_return module.finish({Code::kCorrupt, fmt::format("chunk {} has {} bytes here instead of {}", own_->id,
                                                         (*reader)->length(), own_->length)});
  }
  for (size_t slice = 0; slice < window.range().slices(); ++slice) {
    Status added = co_await window.wait_open(slice);
    if (added.ok()) added = co_await add_slice(module.context(), **reader, window, slice);
    if (!added.ok()) co_return module.finish(std::move(added));
    window.contributed(slice);
  }
  module.output(0, read_seconds_);
  co_return module.finish({});
}

asio::awaitable<Status> TreeSum::add_slice(Context context, ChunkReader& reader,
                                           repair_tree::SliceWindow& window, size_t slice) {
  const repair_tree::SumRange& range = window.range();
  const uint64_t slice_begin = range.offset + range.begin_of(slice);
  const uint64_t slice_end = slice_begin + range.bytes_of(slice);
  const uint64_t end = std::min(slice_end, reader.length());
  std::vector<std::span<std::byte>> sums(range.sums);
  for (uint64_t begin = slice_begin; begin < end;) {
    const TimePoint asked = runtime_.clock.now();
    auto buffer = co_await parts_.buffers.acquire(context.deadline);
    if (!buffer) co_return buffer.error();
    const uint64_t part = std::min<uint64_t>(end - begin, buffer->size() / kBlockBytes * kBlockBytes);
    auto blocks = co_await reader.read_blocks(context, begin / kBlockBytes, blocks_of(part), *buffer);
    if (!blocks) co_return blocks.error();
    KINTSUGI_CO_TRY(window.failure());
    const TimePoint read = runtime_.clock.now();
    for (uint32_t sum = 0; sum < range.sums; ++sum) {
      sums[sum] = window.sum(slice, sum).subspan(begin - slice_begin, part);
    }
    table_->multiply_add(blocks->data.first(part), sums);
    begin += part;
    window.reached(slice, begin - slice_begin);
    read_seconds_ += seconds(read - asked);
    compute_seconds_ += seconds(runtime_.clock.now() - read);
  }
  co_return Status{};
}

}  // namespace kintsugi::chunkserver
