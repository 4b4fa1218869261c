#include "chunkserver/repair/tree_sum.h"

#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kOwn{"chunkserver.partial_sum_own", {"bytes"}, {"read_seconds"}};

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

TreeSum::TreeSum(RepairParts& parts, SumRange range, const proto::PartialSumRequest& request,
                 const google::protobuf::RepeatedPtrField<proto::RepairNode>& children, const OwnChunk* own)
    : parts_(parts),
      runtime_(parts.runtime),
      registered_(parts.running.insert(parts.running.end(), this)),
      own_(own),
      window_(parts.runtime, range, children.size() + (own == nullptr ? 0 : 1)),
      tasks_(parts.runtime) {
  for (const proto::RepairNode& child : children) {
    children_.push_back(std::make_unique<ChildSum>(runtime_, parts.client, window_, request, child));
  }
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

asio::awaitable<Status> TreeSum::run(Context context, SumSink& sink) {
  if (parts_.stopping) co_return Status{Code::kCancelled, "the server is stopping"};
  // Children first: the whole tree is asked in one trip down before anybody reads.
  for (auto& child : children_)
    tasks_.spawn(run_child(context, *child));
  if (own_ != nullptr) tasks_.spawn(run_own(context));
  Status status = co_await consume(sink);
  if (!status.ok()) fail(status);
  co_await tasks_.join();
  co_return window_.failure();
}

void TreeSum::fail(Status why) {
  window_.fail(std::move(why));
  for (auto& child : children_)
    child->close();
}

asio::awaitable<void> TreeSum::run_child(Context context, ChildSum& child) {
  Status status = co_await child.run(context);
  if (!status.ok()) fail(std::move(status));
}

asio::awaitable<void> TreeSum::run_own(Context context) {
  Status status = co_await add_own(context);
  if (!status.ok()) fail(std::move(status));
}

asio::awaitable<Status> TreeSum::add_own(Context context) {
  sight::Module module{context, kOwn, {double(window_.range().length)}};
  const TimePoint began = runtime_.clock.now();
  auto reader = co_await parts_.store.open(module.context(), own_->id);
  if (!reader) co_return module.finish(reader.error());
  read_seconds_ += seconds(runtime_.clock.now() - began);
  if ((*reader)->length() != own_->length) {
    co_return module.finish({Code::kCorrupt, fmt::format("chunk {} has {} bytes here instead of {}", own_->id,
                                                         (*reader)->length(), own_->length)});
  }
  for (size_t slice = 0; slice < window_.range().slices(); ++slice) {
    Status added = co_await window_.wait_open(slice);
    if (added.ok()) added = co_await add_own_slice(module.context(), **reader, slice);
    if (!added.ok()) co_return module.finish(std::move(added));
    window_.contributed(slice);
  }
  module.output(0, read_seconds_);
  co_return module.finish({});
}

asio::awaitable<Status> TreeSum::add_own_slice(Context context, ChunkReader& reader, size_t slice) {
  const SumRange& range = window_.range();
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
    KINTSUGI_CO_TRY(window_.failure());
    const TimePoint read = runtime_.clock.now();
    for (uint32_t sum = 0; sum < range.sums; ++sum) {
      sums[sum] = window_.sum(slice, sum).subspan(begin - slice_begin, part);
    }
    table_->multiply_add(blocks->data.first(part), sums);
    begin += part;
    window_.reached(slice, begin - slice_begin);
    read_seconds_ += seconds(read - asked);
    compute_seconds_ += seconds(runtime_.clock.now() - read);
  }
  co_return Status{};
}

asio::awaitable<Status> TreeSum::consume(SumSink& sink) {
  const SumRange& range = window_.range();
  std::vector<std::span<std::byte>> sums(range.sums);
  for (size_t slice = 0; slice < range.slices(); ++slice) {
    while (true) {
      auto complete = co_await window_.wait_complete(slice, runtime_.clock.now() + kTreeIdleInterval);
      if (!complete) co_return complete.error();
      if (*complete) break;
      KINTSUGI_CO_TRY(co_await sink.idle());
    }
    for (uint32_t sum = 0; sum < range.sums; ++sum)
      sums[sum] = window_.sum(slice, sum);
    KINTSUGI_CO_TRY(
        co_await sink.put(range.offset + range.begin_of(slice), sums, window_.nonzero_bytes(slice)));
    window_.release(slice);
  }
  // The children's end frames, with their timings.
  co_await tasks_.join();
  co_return window_.failure();
}

double TreeSum::compute_seconds() const {
  double sum = compute_seconds_;
  for (const auto& child : children_)
    sum += child->compute_seconds();
  return sum;
}

double TreeSum::network_seconds() const {
  double most = 0;
  for (const auto& child : children_)
    most = std::max(most, child->network_seconds());
  return most;
}

uint64_t TreeSum::bytes_in() const {
  uint64_t sum = 0;
  for (const auto& child : children_)
    sum += child->bytes_in();
  return sum;
}

void TreeSum::add_servers(google::protobuf::RepeatedPtrField<proto::ServerTiming>& servers) const {
  for (const auto& child : children_)
    servers.MergeFrom(child->done().servers());
}

}  // namespace kintsugi::chunkserver
